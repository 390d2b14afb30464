import type * as z from 'zod';

/**
 * Returns a row as a response with the fields of a shape, in their order. A field `created_at` has the
 * value of `createdAt`. `more` has the fields that aren't plain properties of the row.
 */
export function showRow<S extends z.ZodObject, R extends object>(
  { shape }: S,
  row: R,
  more: Omit<z.output<S>, PlainField<z.output<S>, R>> & Partial<z.output<S>>,
): z.output<S> {
  const values = row as Readonly<Record<string, unknown>>;
  const computed = more as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    Object.keys(shape).map((field) => [
      field,
      Object.hasOwn(more, field) ? computed[field] : values[toCamelCase(field)],
    ]),
  ) as z.output<S>;
}

/** The fields whose value is a property of the row. A field that accepts anything isn't one of them. */
type PlainField<Output, R> = {
  [F in keyof Output & string]-?: unknown extends Output[F]
    ? never
    : CamelCase<F> extends keyof R
      ? R[CamelCase<F>] extends Output[F]
        ? F
        : never
      : never;
}[keyof Output & string];

type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

function toCamelCase(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
