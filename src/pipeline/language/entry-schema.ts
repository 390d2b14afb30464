import * as z from 'zod';
import { formatDuration } from '../../base/duration.ts';
import { count, duration, flag, section, text } from '../../base/fields.ts';
import { isObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { parseBaggage } from './baggage.ts';
import { parseCondition } from './condition.ts';
import { dependencyFault } from './dependency.ts';
import { checkDeadline, checkStep, checkWait } from './entry-check.ts';
import { either, read } from './entry-fields.ts';
import type {
  ParsedApprove,
  ParsedCases,
  ParsedConcurrency,
  ParsedStep,
  ParsedWait,
} from './parsed.ts';
import type { Root } from './scope.ts';
import { parseReference, parseTemplate } from './template.ts';

const usual: readonly Root[] = ['payload', 'context'];

/** Nobody is kept waiting by it but the branch. */
const pause = () => duration({ maxMs: limits.delayMsMax });

/** It is a key of payloads and a part of paths, so it has neither dots nor slashes. */
const id = z
  .string()
  .regex(
    /^(?!__proto__$)[A-Za-z_][A-Za-z0-9_-]{0,63}$/,
    'must be at most 64 letters, digits, _ and -, and start with a letter or _',
  );

const condition = (allowed: readonly Root[] = usual) =>
  read((value) => {
    const parsed = parseCondition(value, allowed);
    return parsed.ok ? { value: parsed.condition } : parsed;
  });
const template = read((value) => {
  const parsed = parseTemplate(value, usual);
  return parsed.ok ? { value: parsed.template } : parsed;
});
const reference = read((value) => {
  const parsed = parseReference(value, usual);
  return parsed.ok ? { value: parsed.template } : parsed;
});
const baggage = read((value) => {
  if (!isObject(value)) return { faults: [{ at: [], message: 'must be a map of keys' }] };
  const parsed = parseBaggage(value);
  return parsed.ok ? { value: parsed.rule } : parsed;
});

/** Text in which nothing is to be filled in can be judged at once. */
const dependency = read((value) => {
  const parsed = parseReference(value, usual);
  if (!parsed.ok) return parsed;
  const { template: key } = parsed;
  const fault = 'value' in key ? dependencyFault(key.value) : undefined;
  return fault === undefined ? { value: key } : { faults: [{ at: [], message: fault }] };
});

/** A question, or a map with it. */
const approve = either<ParsedApprove>((value) => typeof value === 'string', {
  first: template.transform((message) => ({ message })),
  second: section({
    message: template.optional(),
    on_timeout: z.enum(['halt', 'approve', 'reject']).optional(),
  }),
});

/** A duration, or a map. */
const wait = either<ParsedWait>((value) => !isObject(value), {
  first: pause().transform((delay) => ({ delay })),
  second: section({
    delay: pause().optional(),
    until: reference.optional(),
    signal: text().optional(),
    from: text().optional(),
    if: condition([...usual, 'signal']).optional(),
    since: z.enum(['run', 'now']).optional(),
  }).superRefine((given, context) => checkWait(given, reporter(context))),
});

const steps: z.ZodType<ParsedStep[]> = z.lazy(() => z.array(step).min(1));
const arm: z.ZodType<ParsedStep[]> = z.lazy(() => z.array(step));

/** By value, or in the order in which conditions are tried. */
const cases = either<ParsedCases>((value) => Array.isArray(value), {
  first: z.array(section({ if: condition(), steps: arm })).min(1),
  second: z.record(z.string(), arm),
});

const step: z.ZodType<ParsedStep> = z.lazy(() => stepSection);

const stepSection = section({
  id: id.optional(),
  uses: text().optional(),
  call: text().optional(),
  steps: steps.optional(),
  split: steps.optional(),
  foreach: reference.optional(),
  as: id.optional(),
  concurrency: count(1).optional(),
  max_fanout: count(1, limits.fanoutMax).optional(),
  switch: reference.optional(),
  cases: cases.optional(),
  otherwise: arm.optional(),
  approve: approve.optional(),
  wait: wait.optional(),
  if: condition().optional(),
  with: z.record(z.string(), template).optional(),
  baggage: baggage.optional(),
  dependency: dependency.optional(),
  retry: section({
    max_attempts: count(1).optional(),
    backoff_base: pause().optional(),
  }).optional(),
  timeout: pause().optional(),
  on_error: z.enum(['halt', 'continue']).optional(),
})
  .superRefine((given, context) => checkStep(given, reporter(context)), {
    // A key that nobody knows may be the one that is missing.
    when: ({ value, issues }) =>
      isObject(value) && !issues.some(({ code }) => code === 'unrecognized_keys'),
  })
  .superRefine((given, context) => checkDeadline(given, reporter(context)), {
    when: ({ value, issues }) =>
      isObject(value) && !issues.some(({ path = [] }) => path[0] === 'wait'),
  });

/** One entry of `pipelines`, as it is written. `toPipelineEntry` makes of it what is compiled. */
export const pipelineSchema = section({
  name: z
    .string()
    .regex(
      /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/,
      'must be letters, digits, _, - and dots, and start with a letter or digit',
    ),
  on: text().optional(),
  from_plugin: text().optional(),
  if: condition().optional(),
  execution_mode: z.enum(['async', 'synchronous']).default('async'),
  timeout: duration({ maxMs: limits.timerMsMax }).prefault(
    formatDuration(limits.pipelineTimeoutMs),
  ),
  max_fanout: count(1, limits.fanoutMax).default(limits.fanoutUsual),
  concurrency: either<ParsedConcurrency>((value) => !isObject(value), {
    first: count(1),
    second: section({ key: reference, limit: count(1) }),
  }).optional(),
  on_halt: text().optional(),
  shared: flag().default(false),
  steps,
}).superRefine(
  (given, context) => {
    const report = reporter(context);
    for (const key of ['from_plugin', 'if'] as const) {
      if (given[key] !== undefined && given.on === undefined)
        report(key, 'is only for pipelines with on');
    }
  },
  { when: ({ value }) => isObject(value) },
);

export type ParsedPipeline = z.output<typeof pipelineSchema>;

type Report = (key: string, message: string, hint?: string) => void;

function reporter(context: z.core.$RefinementCtx): Report {
  return (key, message, hint) =>
    context.addIssue({ code: 'custom', path: [key], message, params: { hint } });
}
