import type { Json } from '../../base/json.ts';
import type { Condition } from './condition.ts';
import {
  findStepMode,
  type ParsedPipeline,
  type ParsedCases,
  type ParsedStep,
} from './entry-schema.ts';
import type { ApproveSettings, TaskSettings, WaitSettings } from './graph.ts';
import type { Template } from './template.ts';

/** A pipeline as written. Every step has an id, and no command is resolved yet. */
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
  /** True if every tenant has this pipeline, too. */
  readonly shared: boolean;
  readonly steps: readonly StepEntry[];
  /** Finds the location of a part in the configuration files. */
  readonly locate: Locate;
}

/** Keys and indexes below the pipeline. */
export type EntryPath = readonly (string | number)[];
type Locate = (path: EntryPath) => EntryLocation;

interface EntryLocation {
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

interface StepEntryBase {
  readonly id: string;
  readonly path: EntryPath;
  readonly when: Condition | undefined;
}

export interface UsesEntry extends StepEntryBase, TaskSettings {
  readonly mode: 'uses';
  /** `plugin` or `plugin.command`. The name of an existing plugin wins. */
  readonly uses: string;
}

export interface CallEntry extends StepEntryBase {
  readonly mode: 'call';
  readonly call: string;
}

interface GroupEntry extends StepEntryBase {
  readonly mode: 'steps';
  readonly steps: readonly StepEntry[];
}

interface SplitEntry extends StepEntryBase {
  readonly mode: 'split';
  readonly split: readonly StepEntry[];
}

interface ForeachEntry extends StepEntryBase {
  readonly mode: 'foreach';
  readonly items: Template;
  readonly as: string;
  readonly concurrency: number | undefined;
  readonly maxFanout: number | undefined;
  readonly steps: readonly StepEntry[];
}

export interface SwitchEntry extends StepEntryBase {
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

interface ApproveEntry extends StepEntryBase, ApproveSettings {
  readonly mode: 'approve';
}

interface WaitEntry extends StepEntryBase, WaitSettings {
  readonly mode: 'wait';
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
    steps: toSteps(parsed.steps, ['steps'], createStepNamer(parsed.steps)),
    locate,
  };
}

function toSteps(parsed: readonly ParsedStep[], path: EntryPath, name: StepNamer): StepEntry[] {
  return parsed.map((step, index) => toStep(step, [...path, index], name));
}

function toStep(parsed: ParsedStep, path: EntryPath, name: StepNamer): StepEntry {
  const common = { id: name(parsed.id), path, when: parsed.if };
  const onError = parsed.on_error ?? 'halt';
  const timeoutMs = parsed.timeout;
  const list = (key: 'steps' | 'split'): StepEntry[] =>
    toSteps(parsed[key] ?? [], [...path, key], name);
  switch (findStepMode(parsed)) {
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
  name: StepNamer,
): Pick<SwitchEntry, 'value' | 'cases' | 'otherwise'> {
  return {
    value,
    cases: toCases(cases, [...path, 'cases'], name),
    otherwise: otherwise && toSteps(otherwise, [...path, 'otherwise'], name),
  };
}

function toCases(cases: ParsedCases, path: EntryPath, name: StepNamer): CaseEntry[] {
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

/** Lists every step with the nested ones, in the order of the configuration. */
export function flattenSteps(steps: readonly StepEntry[]): StepEntry[] {
  return steps.flatMap((step) => [step, ...flattenSteps(innerSteps(step))]);
}

function innerSteps(step: StepEntry): readonly StepEntry[] {
  if (step.mode === 'steps' || step.mode === 'foreach') return step.steps;
  if (step.mode === 'split') return step.split;
  if (step.mode !== 'switch') return [];
  return [...step.cases.flatMap((arm) => arm.steps), ...(step.otherwise ?? [])];
}

/** Returns the id of the next step, in the order of the configuration. */
type StepNamer = (given: string | undefined) => string;

/** Names a step without an id after its position, and avoids ids that are in use. */
function createStepNamer(steps: readonly ParsedStep[]): StepNamer {
  const used = new Set(steps.flatMap(idsOf));
  let count = 0;
  return (given) => {
    count += 1;
    if (given !== undefined) return given;
    let name = `step_${count}`;
    while (used.has(name)) name += '_';
    used.add(name);
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
