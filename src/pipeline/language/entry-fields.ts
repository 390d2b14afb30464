import * as z from 'zod';
import type { Json } from '../../base/json.ts';
import type { Fault } from './template.ts';
import { dependencyKey } from '../../base/fields.ts';
import { limits } from '../../base/limits.ts';

/** A value of any form, for which a reader of its own says what it is or what is wrong where. */
export function read<T>(
  reader: (value: Json) => { readonly value: T } | { readonly faults: readonly Fault[] },
) {
  return z.unknown().transform((value, context): T => {
    // The document was scanned for what JSON cannot hold.
    const answer = reader((value ?? null) as Json);
    if ('value' in answer) return answer.value;
    for (const { at, message } of answer.faults) {
      context.addIssue({ code: 'custom', path: [...at], message });
    }
    return z.NEVER;
  });
}

/** One of two forms. Unlike with a union, what is wrong is said about the form that was meant. */
export function either<T>(
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

/** The form of `either` that a value has, for readers that follow a schema down. */
export function formOf(
  schema: z.core.$ZodType,
  readValue: () => unknown,
): z.core.$ZodType | undefined {
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodLazy
  ) {
    return formOf(schema.unwrap(), readValue);
  }
  const pair = pairs.get(schema);
  if (pair === undefined) return undefined;
  return pair.isFirst(readValue()) ? pair.first : pair.second;
}

const dependencySchema = dependencyKey();

/** Why something cannot be the key of jobs of which one at a time may run. */
export function dependencyFault(value: Json): string | undefined {
  const [issue] = dependencySchema.safeParse(value).error?.issues ?? [];
  if (issue?.code === 'invalid_type') return 'must be text';
  if (issue?.code !== 'too_big') return issue?.message;
  return `must have at most ${limits.dependencyKeyCharsMax} characters`;
}
