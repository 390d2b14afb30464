/** What parsing a piece of an entry gives; a fault is said as the predicate of its key. */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string; readonly hint: string };

export function accept<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

export function refuse(message: string, hint: string): Parsed<never> {
  return { ok: false, message, hint };
}
