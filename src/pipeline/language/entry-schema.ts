import { parseBaggage, type BaggageRule } from './baggage.ts';
import { parseCondition, type Condition } from './condition.ts';
import type { OnError } from './graph.ts';
import { parseReference, parseTemplate, type Template, type ScopeRoot } from './template.ts';
import { formatDuration } from '../../base/quantity.ts';
import { limits } from '../../base/limits.ts';
import { count, duration, flag, strictSection, nonBlankText } from '../../base/fields.ts';
import { isObject } from '../../base/json.ts';
import { findDependencyFault, oneOfTwoForms, readField } from './entry-fields.ts';
import * as z from 'zod';

/** A step as written, with each value parsed on its own. */
export interface ParsedStep {
  readonly id?: string | undefined;
  readonly uses?: string | undefined;
  readonly call?: string | undefined;
  readonly steps?: readonly ParsedStep[] | undefined;
  readonly split?: readonly ParsedStep[] | undefined;
  readonly foreach?: Template | undefined;
  readonly as?: string | undefined;
  readonly concurrency?: number | undefined;
  readonly max_fanout?: number | undefined;
  readonly switch?: Template | undefined;
  readonly cases?: ParsedCases | undefined;
  readonly otherwise?: readonly ParsedStep[] | undefined;
  readonly approve?: ParsedApprove | undefined;
  readonly wait?: ParsedWait | undefined;
  readonly if?: Condition | undefined;
  readonly with?: Readonly<Record<string, Template>> | undefined;
  readonly baggage?: BaggageRule | undefined;
  readonly dependency?: Template | undefined;
  readonly retry?: ParsedRetry | undefined;
  readonly timeout?: number | undefined;
  readonly on_error?: OnError | undefined;
}

interface ParsedRetry {
  readonly max_attempts?: number | undefined;
  readonly backoff_base?: number | undefined;
}

export type ParsedCases =
  | Readonly<Record<string, readonly ParsedStep[]>>
  | readonly { readonly if: Condition; readonly steps: readonly ParsedStep[] }[];

interface ParsedApprove {
  readonly message?: Template | undefined;
  readonly on_timeout?: 'halt' | 'approve' | 'reject' | undefined;
}

interface ParsedWait {
  readonly delay?: number | undefined;
  readonly until?: Template | undefined;
  readonly signal?: string | undefined;
  readonly from?: string | undefined;
  readonly if?: Condition | undefined;
  readonly since?: 'run' | 'now' | undefined;
}

/** The maximum number of concurrent runs, in total or per key. */
type ParsedConcurrency = number | { readonly key: Template; readonly limit: number };

type Report = (key: string, message: string, hint?: string) => void;
type Key = keyof ParsedStep;

/** The kinds of steps. Each has a key of its own. */
const modes = ['uses', 'call', 'split', 'foreach', 'switch', 'approve', 'wait', 'steps'] as const;
type StepMode = (typeof modes)[number];

/** The steps that may have a key. Other keys are allowed in every step. */
const modesOfKeys: Readonly<Partial<Record<Key, readonly StepMode[]>>> = {
  as: ['foreach'],
  concurrency: ['foreach'],
  max_fanout: ['foreach'],
  cases: ['switch'],
  otherwise: ['switch'],
  with: ['uses'],
  baggage: ['uses'],
  dependency: ['uses'],
  retry: ['uses'],
  timeout: ['uses', 'approve', 'wait'],
  on_error: ['uses', 'approve', 'wait'],
};

/** Finds the kind of a step. `cases` without `switch` is a switch over conditions. */
export function findStepMode(step: Partial<Record<Key, unknown>>): StepMode | undefined {
  if (step.switch === undefined && step.cases !== undefined) return 'switch';
  return modes.find((mode) => step[mode] !== undefined);
}

/** Checks only which keys are present, because values report their own faults. */
function checkStep(step: ParsedStep, report: Report): void {
  const mode = findStepMode(step);
  if (mode === undefined) {
    report('uses', `or one of ${modes.slice(1).join(', ')} is required`);
    return;
  }
  const others = modes.filter((other) => other !== mode && step[other] !== undefined);
  for (const other of others) {
    if (mode === 'foreach' && other === 'steps') continue;
    report(other, `and ${mode} exclude each other`, 'Split it into two steps.');
  }
  for (const [key, allowed] of Object.entries(modesOfKeys)) {
    if (step[key as Key] === undefined || allowed.includes(mode)) continue;
    report(key, `is only for steps with ${allowed.join(', ')}, not for ${mode}`);
  }
  if (mode === 'foreach' && step.steps === undefined) report('steps', 'is required with foreach');
  if (mode === 'switch') checkSwitch(step, report);
  // An attempt uses a timer, which has a maximum. Approvals and waits don't.
  if (mode === 'uses' && typeof step.timeout === 'number' && step.timeout > limits.timerMsMax) {
    report('timeout', `must be at most ${formatDuration(limits.timerMsMax)} for uses`);
  }
}

function checkSwitch({ switch: value, cases }: ParsedStep, report: Report): void {
  if (cases === undefined) {
    report('cases', 'is required with switch');
  } else if (Array.isArray(cases) && value !== undefined) {
    const hint = 'Remove switch, or write cases as a map from value to steps.';
    report('cases', 'is a list of conditions, which do not use the value of switch', hint);
  } else if (!Array.isArray(cases) && value === undefined) {
    report('switch', 'is required: the cases are compared with its value');
  }
}

/** A wait for a time can't time out. */
function checkDeadline({ wait, timeout, on_error: onError }: ParsedStep, report: Report): void {
  if (wait === undefined || wait.signal !== undefined) return;
  if (timeout !== undefined) report('timeout', 'is only for a wait for a signal');
  if (onError !== undefined) report('on_error', 'is only for a wait for a signal');
}

function checkWait(wait: ParsedWait, report: Report): void {
  const given = (['delay', 'until', 'signal'] as const).filter((key) => wait[key] !== undefined);
  const [first, second] = given;
  if (first === undefined) report('delay', 'or one of until and signal is required');
  if (second !== undefined) report(second, `and ${first} exclude each other`, 'Keep one of them.');
  for (const key of ['from', 'if', 'since'] as const) {
    if (wait[key] !== undefined && wait.signal === undefined) {
      report(key, 'is only for a wait for a signal');
    }
  }
}

const defaultRoots: readonly ScopeRoot[] = ['payload', 'context'];

/** A wait blocks only its branch, so it may be long. */
const pause = () => duration({ maxMs: limits.delayMsMax });

/** An id is a key of payloads and a part of paths, so it has neither dots nor slashes. */
const id = z
  .string()
  .regex(
    /^(?!__proto__$)[A-Za-z_][A-Za-z0-9_-]{0,63}$/,
    'must be at most 64 letters, digits, _ and -, and start with a letter or _',
  );

const condition = (allowed: readonly ScopeRoot[] = defaultRoots) =>
  readField((value) => {
    const parsed = parseCondition(value, allowed);
    return parsed.ok ? { value: parsed.condition } : parsed;
  });
const template = readField((value) => {
  const parsed = parseTemplate(value, defaultRoots);
  return parsed.ok ? { value: parsed.template } : parsed;
});
const reference = readField((value) => {
  const parsed = parseReference(value, defaultRoots);
  return parsed.ok ? { value: parsed.template } : parsed;
});
const baggage = readField((value) => {
  if (!isObject(value)) return { faults: [{ at: [], message: 'must be a map of keys' }] };
  const parsed = parseBaggage(value);
  return parsed.ok ? { value: parsed.rule } : parsed;
});

/** A key without placeholders can be checked now. */
const dependency = readField((value) => {
  const parsed = parseReference(value, defaultRoots);
  if (!parsed.ok) return parsed;
  const { template: key } = parsed;
  const fault = 'value' in key ? findDependencyFault(key.value) : undefined;
  return fault === undefined ? { value: key } : { faults: [{ at: [], message: fault }] };
});

/** The question itself, or a map with it. */
const approve = oneOfTwoForms<ParsedApprove>((value) => typeof value === 'string', {
  first: template.transform((message) => ({ message })),
  second: strictSection({
    message: template.optional(),
    on_timeout: z.enum(['halt', 'approve', 'reject']).optional(),
  }),
});

/** A duration, or a map. */
const wait = oneOfTwoForms<ParsedWait>((value) => !isObject(value), {
  first: pause().transform((delay) => ({ delay })),
  second: strictSection({
    delay: pause().optional(),
    until: reference.optional(),
    signal: nonBlankText().optional(),
    from: nonBlankText().optional(),
    if: condition([...defaultRoots, 'signal']).optional(),
    since: z.enum(['run', 'now']).optional(),
  }).superRefine((given, context) => checkWait(given, reporter(context))),
});

const steps: z.ZodType<ParsedStep[]> = z.lazy(() => z.array(step).min(1));
const arm: z.ZodType<ParsedStep[]> = z.lazy(() => z.array(step));

/** A map by value, or a list of conditions in order. */
const cases = oneOfTwoForms<ParsedCases>((value) => Array.isArray(value), {
  first: z.array(strictSection({ if: condition(), steps: arm })).min(1),
  second: z.record(z.string(), arm),
});

const step: z.ZodType<ParsedStep> = z.lazy(() => stepSection);

const stepSection = strictSection({
  id: id.optional(),
  uses: nonBlankText().optional(),
  call: nonBlankText().optional(),
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
  retry: strictSection({
    max_attempts: count(1).optional(),
    backoff_base: pause().optional(),
  }).optional(),
  timeout: pause().optional(),
  on_error: z.enum(['halt', 'continue']).optional(),
})
  .superRefine((given, context) => checkStep(given, reporter(context)), {
    // An unknown key may be a misspelling of the missing one.
    when: ({ value, issues }) =>
      isObject(value) && !issues.some(({ code }) => code === 'unrecognized_keys'),
  })
  .superRefine((given, context) => checkDeadline(given, reporter(context)), {
    when: ({ value, issues }) =>
      isObject(value) && !issues.some(({ path = [] }) => path[0] === 'wait'),
  });

/** An entry of `pipelines`, as written. `toPipelineEntry` converts it for the compiler. */
export const pipelineSchema = strictSection({
  name: z
    .string()
    .regex(
      /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/,
      'must be letters, digits, _, - and dots, and start with a letter or digit',
    ),
  on: nonBlankText().optional(),
  from_plugin: nonBlankText().optional(),
  if: condition().optional(),
  execution_mode: z.enum(['async', 'synchronous']).default('async'),
  timeout: duration({ maxMs: limits.timerMsMax }).prefault(
    formatDuration(limits.pipelineTimeoutMs),
  ),
  max_fanout: count(1, limits.fanoutMax).default(limits.fanoutDefault),
  concurrency: oneOfTwoForms<ParsedConcurrency>((value) => !isObject(value), {
    first: count(1),
    second: strictSection({ key: reference, limit: count(1) }),
  }).optional(),
  on_halt: nonBlankText().optional(),
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

function reporter(context: z.core.$RefinementCtx): Report {
  return (key, message, hint) =>
    context.addIssue({ code: 'custom', path: [key], message, params: { hint } });
}
