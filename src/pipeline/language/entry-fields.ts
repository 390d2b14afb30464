import * as z from 'zod';
import type { Json } from '../../base/json.ts';
import type { TemplateFault } from './template.ts';
import { dependencyKey } from '../../base/fields.ts';
import { limits } from '../../base/limits.ts';

/** A field with a parser of its own, which returns the value or its faults. */
export function readField<T>(
  reader: (value: Json) => { readonly value: T } | { readonly faults: readonly TemplateFault[] },
) {
  return z.unknown().transform((value, context): T => {
    // The configuration loader already rejected values that JSON can't hold.
    const result = reader((value ?? null) as Json);
    if ('value' in result) return result.value;
    for (const { at, message } of result.faults) {
      context.addIssue({ code: 'custom', path: [...at], message });
    }
    return z.NEVER;
  });
}

/** A field with two forms. Unlike a union, it reports the faults of the form that was meant. */
export function oneOfTwoForms<T>(
  isFirst: (value: unknown) => boolean,
  forms: { readonly first: z.ZodType<T>; readonly second: z.ZodType<T> },
) {
  const schema = z.unknown().transform((value, context): T => {
    const parsed = (isFirst(value) ? forms.first : forms.second).safeParse(value);
    if (parsed.success) return parsed.data;
    for (const issue of parsed.error.issues) {
      context.issues.push({ ...issue, input: value } as z.core.$ZodRawIssue);
    }
    return z.NEVER;
  });
  pairs.set(schema, { isFirst, ...forms });
  return schema;
}

interface FormPair {
  readonly isFirst: (value: unknown) => boolean;
  readonly first: z.ZodType;
  readonly second: z.ZodType;
}

const pairs = new WeakMap<z.core.$ZodType, FormPair>();

/** Finds the form of `oneOfTwoForms` that a value has, for code that follows a schema down. */
export function findForm(
  schema: z.core.$ZodType,
  readValue: () => unknown,
): z.core.$ZodType | undefined {
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodLazy
  ) {
    return findForm(schema.unwrap(), readValue);
  }
  const pair = pairs.get(schema);
  if (pair === undefined) return undefined;
  return pair.isFirst(readValue()) ? pair.first : pair.second;
}

const dependencySchema = dependencyKey();

/** Says why a value can't be a dependency key. Only one job per key runs at a time. */
export function findDependencyFault(value: Json): string | undefined {
  const [issue] = dependencySchema.safeParse(value).error?.issues ?? [];
  if (issue?.code === 'invalid_type') return 'must be text';
  if (issue?.code !== 'too_big') return issue?.message;
  return `must have at most ${limits.dependencyKeyCharsMax} characters`;
}
