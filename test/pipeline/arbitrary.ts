/** Generates pipelines of any shape, their payloads, and the results of their plugins. */
import fc from 'fast-check';
import type { Json, JsonObject } from '../../src/base/json.ts';
import type { Play, Tree } from './model.ts';

/** Steps get their ids later, so that these are unique in the pipeline. */
type Shape =
  | { readonly kind: 'task'; readonly lenient: boolean; readonly needs: string | undefined }
  | { readonly kind: 'steps'; readonly steps: readonly Shape[] }
  | {
      readonly kind: 'foreach';
      readonly steps: readonly Shape[];
      readonly needs: string | undefined;
    }
  | {
      readonly kind: 'split' | 'switch';
      readonly arms: readonly (readonly Shape[])[];
      readonly needs: string | undefined;
    };

const needs = fc.oneof(
  { weight: 5, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.constantFrom('result', 'error', 'value', 'items', 's2', 's3') },
);

const { list: shapes } = fc.letrec<{ shape: Shape; list: Shape[] }>((tie) => ({
  list: fc.array(tie('shape'), { minLength: 1, maxLength: 3, size: 'max' }),
  shape: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.record({ kind: fc.constant('task' as const), lenient: fc.boolean(), needs }),
    fc.record({ kind: fc.constant('steps' as const), steps: tie('list') }),
    fc.record({ kind: fc.constant('foreach' as const), steps: tie('list'), needs }),
    fc.record({
      kind: fc.constantFrom('split' as const, 'switch' as const),
      arms: fc.array(tie('list'), { minLength: 1, maxLength: 3 }),
      needs,
    }),
  ),
}));

/** Gives every step an id of its own. */
export function name(list: readonly Shape[]): Tree[] {
  let count = 0;
  const nameAll = (inner: readonly Shape[]): Tree[] =>
    inner.map((shape) => {
      count += 1;
      const named = { id: `s${count}`, needs: 'needs' in shape ? shape.needs : undefined };
      if (shape.kind === 'task') return { ...shape, ...named };
      if ('steps' in shape) return { ...shape, ...named, steps: nameAll(shape.steps) };
      return { ...shape, ...named, arms: shape.arms.map(nameAll) };
    });
  return nameAll(list);
}

const anyPayload: fc.Arbitrary<JsonObject> = fc.record(
  {
    kind: fc.constantFrom<Json>(0, 1, 2, 'other'),
    items: fc.array(fc.constantFrom<Json>(null, false, 0, '', 'x', { y: 1 }), { maxLength: 3 }),
    n: fc.nat(9),
  },
  { requiredKeys: ['n'] },
);

/** Mostly a payload that every step accepts. */
const payload: fc.Arbitrary<JsonObject> = fc.oneof(
  { weight: 1, arbitrary: anyPayload },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom<Json>(0, 0, 0, 1),
      items: fc.array(fc.constantFrom<Json>(null, 0, 'x'), { minLength: 1, maxLength: 3 }),
    }),
  },
);

const answer: fc.Arbitrary<ReturnType<Play>> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('done' as const),
      events: fc.oneof(
        fc.constant<Json[]>([]),
        fc.array(payload, { minLength: 1, maxLength: 1 }),
        fc.array(fc.oneof(payload, payload, fc.nat(9)), { maxLength: 3 }),
      ),
      result: fc.constantFrom<Json>('ok', null),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constant({ kind: 'failed' as const, reason: 'timeout' as const, error: 'slow' }),
  },
);

/** Returns the same result for the same input, at any time. */
export function makePlay(answers: readonly ReturnType<Play>[]): Play {
  return (id, branch) => {
    const sum = Array.from(`${id}@${branch}`).reduce(
      (hash, char) => (hash * 31 + char.charCodeAt(0)) % 9973,
      7,
    );
    const chosen = answers[sum % answers.length];
    if (chosen === undefined) throw new Error('no answers');
    return chosen;
  };
}

/** A pipeline, its payload, and the results of its plugins. */
export const cases = fc.tuple(shapes, payload, fc.array(answer, { minLength: 1, maxLength: 12 }));
