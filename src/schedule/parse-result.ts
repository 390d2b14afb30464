/** What parsing a piece of an entry gives; a fault is said as the predicate of its key. */
export type ParseResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string; readonly hint: string };

export function parseOk<T>(value: T): ParseResult<T> {
  return { ok: true, value };
}

export function parseFault(message: string, hint: string): ParseResult<never> {
  return { ok: false, message, hint };
}
