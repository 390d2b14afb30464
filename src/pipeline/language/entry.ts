import type { Json } from '../../base/json.ts';
import type { BaggageRule } from './baggage.ts';
import type { Condition } from './condition.ts';
import { modeOf, type ParsedPipeline, type ParsedCases, type ParsedStep } from './entry-schema.ts';
import type { OnError } from './graph.ts';
import type { Template } from './template.ts';

/** A pipeline as it is written: every step has its id, and nothing is resolved. */
export interface PipelineEntry {
  readonly name: string;
  readonly on: string | undefined;
  readonly fromPlugin: string | undefined;
  readonly when: Condition | undefined;
  readonly mode: 'async' | 'synchronous';
  readonly timeoutMs: number;
  readonly maxFanout: number;
  readonly concurrency: { readonly key: Template; readonly limit: number } | undefined;
  readonly onHalt: string | undefined;
  /** Whether every tenant has it too. */
  readonly shared: boolean;
  readonly steps: readonly StepEntry[];
  /** Where in the files something of it stands. */
  readonly locate: Locate;
}

/** Keys and indexes below the pipeline. */
export type EntryPath = readonly (string | number)[];
type Locate = (path: EntryPath) => Where;

interface Where {
  /** `file:line:column`. */
  readonly place: string;
  /** The dotted key. */
  readonly key: string;
}

export type StepEntry =
  | UsesEntry
  | CallEntry
  | GroupEntry
  | SplitEntry
  | ForeachEntry
  | SwitchEntry
  | ApproveEntry
  | WaitEntry;

interface Common {
  readonly id: string;
  readonly path: EntryPath;
  readonly when: Condition | undefined;
}

export interface UsesEntry extends Common {
  readonly mode: 'uses';
  /** `plugin`, or `plugin.command` unless a plugin has exactly that name. */
  readonly uses: string;
  readonly with: Readonly<Record<string, Template>> | undefined;
  readonly baggage: BaggageRule | undefined;
  readonly dependency: Template | undefined;
  readonly maxAttempts: number | undefined;
  readonly backoffBaseMs: number | undefined;
  readonly timeoutMs: number | undefined;
  readonly onError: OnError;
}

export interface CallEntry extends Common {
  readonly mode: 'call';
  readonly call: string;
}

interface GroupEntry extends Common {
  readonly mode: 'steps';
  readonly steps: readonly StepEntry[];
}

interface SplitEntry extends Common {
  readonly mode: 'split';
  readonly split: readonly StepEntry[];
}

interface ForeachEntry extends Common {
  readonly mode: 'foreach';
  readonly items: Template;
  readonly as: string;
  readonly concurrency: number | undefined;
  readonly maxFanout: number | undefined;
  readonly steps: readonly StepEntry[];
}

export interface SwitchEntry extends Common {
  readonly mode: 'switch';
  readonly value: Template | undefined;
  readonly cases: readonly CaseEntry[];
  readonly otherwise: readonly StepEntry[] | undefined;
}

interface CaseEntry {
  readonly label: string;
  readonly path: EntryPath;
  readonly when: Condition | undefined;
  readonly equals: Json | undefined;
  readonly steps: readonly StepEntry[];
}

interface ApproveEntry extends Common {
  readonly mode: 'approve';
  readonly message: Template | undefined;
  readonly timeoutMs: number | undefined;
  readonly onTimeout: 'halt' | 'approve' | 'reject';
  readonly onError: OnError;
}

interface WaitEntry extends Common {
  readonly mode: 'wait';
  readonly delayMs: number | undefined;
  readonly until: Template | undefined;
  readonly signal:
    | {
        readonly type: string;
        readonly from: string | undefined;
        readonly when: Condition | undefined;
        readonly since?: 'now' | undefined;
      }
    | undefined;
  readonly timeoutMs: number | undefined;
  readonly onError: OnError;
}

export function toPipelineEntry(parsed: ParsedPipeline, locate: Locate): PipelineEntry {
  const { name, concurrency } = parsed;
  return {
    name,
    on: parsed.on,
    fromPlugin: parsed.from_plugin,
    when: parsed.if,
    mode: parsed.execution_mode,
    timeoutMs: parsed.timeout,
    maxFanout: parsed.max_fanout,
    concurrency:
      typeof concurrency === 'number' ? { key: { value: name }, limit: concurrency } : concurrency,
    onHalt: parsed.on_halt,
    shared: parsed.shared,
    steps: toSteps(parsed.steps, ['steps'], namer(parsed.steps)),
    locate,
  };
}

function toSteps(parsed: readonly ParsedStep[], path: EntryPath, name: Namer): StepEntry[] {
  return parsed.map((step, index) => toStep(step, [...path, index], name));
}

function toStep(parsed: ParsedStep, path: EntryPath, name: Namer): StepEntry {
  const common = { id: name(parsed.id), path, when: parsed.if };
  const onError = parsed.on_error ?? 'halt';
  const timeoutMs = parsed.timeout;
  const list = (key: 'steps' | 'split'): StepEntry[] =>
    toSteps(parsed[key] ?? [], [...path, key], name);
  switch (modeOf(parsed)) {
    case 'uses':
      return {
        ...common,
        mode: 'uses',
        uses: parsed.uses ?? '',
        with: parsed.with,
        baggage: parsed.baggage,
        dependency: parsed.dependency,
        maxAttempts: parsed.retry?.max_attempts,
        backoffBaseMs: parsed.retry?.backoff_base,
        timeoutMs,
        onError,
      };
    case 'call':
      return { ...common, mode: 'call', call: parsed.call ?? '' };
    case 'split':
      return { ...common, mode: 'split', split: list('split') };
    case 'foreach':
      return {
        ...common,
        mode: 'foreach',
        items: parsed.foreach ?? { value: null },
        as: parsed.as ?? 'item',
        concurrency: parsed.concurrency,
        maxFanout: parsed.max_fanout,
        steps: list('steps'),
      };
    case 'switch':
      return { ...common, mode: 'switch', ...toArms(parsed, path, name) };
    case 'approve':
      return {
        ...common,
        mode: 'approve',
        message: parsed.approve?.message,
        onTimeout: parsed.approve?.on_timeout ?? 'halt',
        timeoutMs,
        onError,
      };
    case 'wait':
      return { ...common, mode: 'wait', ...toWait(parsed.wait ?? {}), timeoutMs, onError };
    default:
      return { ...common, mode: 'steps', steps: list('steps') };
  }
}

function toArms(
  { switch: value, cases = {}, otherwise }: ParsedStep,
  path: EntryPath,
  name: Namer,
): Pick<SwitchEntry, 'value' | 'cases' | 'otherwise'> {
  return {
    value,
    cases: toCases(cases, [...path, 'cases'], name),
    otherwise: otherwise && toSteps(otherwise, [...path, 'otherwise'], name),
  };
}

function toCases(cases: ParsedCases, path: EntryPath, name: Namer): CaseEntry[] {
  if (isList(cases)) {
    return cases.map(({ if: when, steps }, index) => ({
      label: String(index + 1),
      path: [...path, index],
      when,
      equals: undefined,
      steps: toSteps(steps, [...path, index, 'steps'], name),
    }));
  }
  return Object.entries(cases).map(([label, steps]) => ({
    label,
    path: [...path, label],
    when: undefined,
    equals: label,
    steps: toSteps(steps, [...path, label], name),
  }));
}

function isList(cases: ParsedCases): cases is Extract<ParsedCases, readonly unknown[]> {
  return Array.isArray(cases);
}

function toWait({
  delay,
  until,
  signal: type,
  from,
  if: when,
  since,
}: NonNullable<ParsedStep['wait']>): Pick<WaitEntry, 'delayMs' | 'until' | 'signal'> {
  const fresh = since === 'now' ? { since } : {};
  const signal = type === undefined ? undefined : { type, from, when, ...fresh };
  return { delayMs: delay, until, signal };
}

/** Every step, nested ones too, in the order in which they are written. */
export function stepsIn(steps: readonly StepEntry[]): StepEntry[] {
  return steps.flatMap((step) => [step, ...stepsIn(innerSteps(step))]);
}

function innerSteps(step: StepEntry): readonly StepEntry[] {
  if (step.mode === 'steps' || step.mode === 'foreach') return step.steps;
  if (step.mode === 'split') return step.split;
  if (step.mode !== 'switch') return [];
  return [...step.cases.flatMap((one) => one.steps), ...(step.otherwise ?? [])];
}

/** Gives each step its id, in the order in which they are written. */
type Namer = (given: string | undefined) => string;

/** A step without an id is called by its place in the pipeline, unless another has that name. */
function namer(steps: readonly ParsedStep[]): Namer {
  const taken = new Set(steps.flatMap(idsOf));
  let count = 0;
  return (given) => {
    count += 1;
    if (given !== undefined) return given;
    let name = `step_${count}`;
    while (taken.has(name)) name += '_';
    taken.add(name);
    return name;
  };
}

function idsOf(step: ParsedStep): string[] {
  const inner = listsOf(step).flatMap((list) => list.flatMap(idsOf));
  return step.id === undefined ? inner : [step.id, ...inner];
}

function listsOf({ steps, split, cases, otherwise }: ParsedStep): (readonly ParsedStep[])[] {
  const arms = Object.values(cases ?? {}).map(
    (arm: readonly ParsedStep[] | { readonly steps: readonly ParsedStep[] }) =>
      'steps' in arm ? arm.steps : arm,
  );
  return [steps ?? [], split ?? [], ...arms, otherwise ?? []];
}
