/**
 * The result of parsing a part of an entry. The message is the predicate of a sentence about its
 * key.
 */
export type ParseResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string; readonly hint: string };

export function parseOk<T>(value: T): ParseResult<T> {
  return { ok: true, value };
}

export function parseFault(message: string, hint: string): ParseResult<never> {
  return { ok: false, message, hint };
}
