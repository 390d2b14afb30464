import { limits } from '../../base/limits.ts';
import type { Condition } from './condition.ts';
import {
  flattenSteps,
  type EntryPath,
  type PipelineEntry,
  type StepEntry,
  type SwitchEntry,
  type CallEntry,
} from './entry.ts';
import { listLookalikes, type Template } from './template.ts';
import type { CommandTarget } from './graph.ts';

/** Checks a pipeline without its surroundings: duplicate ids and unreachable steps. */
export function checkPipelineEntry(entry: PipelineEntry): CompileFault[] {
  const steps = flattenSteps(entry.steps);
  return [...findDuplicateIds(steps), ...steps.flatMap(checkStep)];
}

/** Finds plain text that was probably meant as a reference. */
export function findLookalikes(entry: PipelineEntry): CompileFault[] {
  const key = entry.concurrency?.key;
  const templates = flattenSteps(entry.steps).flatMap((step) =>
    templatesOf(step).map(([path, template]) => [[...step.path, ...path], template] as const),
  );
  if (key !== undefined) templates.push([['concurrency', 'key'], key]);
  return templates.flatMap(([path, template]) =>
    listLookalikes(template).map(({ written, reference }) => ({
      path,
      message: `has ${written}, which is plain text, not a value`,
      hint: `To use the value, write ${reference}.`,
    })),
  );
}

function templatesOf(step: StepEntry): (readonly [EntryPath, Template])[] {
  const all: readonly (readonly [EntryPath, Template | undefined])[] = [
    ...(step.mode === 'uses' ? Object.entries(step.with ?? {}) : []).map(
      ([key, template]) => [['with', key], template] as const,
    ),
    [['dependency'], step.mode === 'uses' ? step.dependency : undefined],
    [['foreach'], step.mode === 'foreach' ? step.items : undefined],
    [['switch'], step.mode === 'switch' ? step.value : undefined],
    [['approve'], step.mode === 'approve' ? step.message : undefined],
    [['wait'], step.mode === 'wait' ? step.until : undefined],
  ];
  return all.flatMap(([path, template]) => (template === undefined ? [] : [[path, template]]));
}

function findDuplicateIds(steps: readonly StepEntry[]): CompileFault[] {
  const seen = new Set<string>();
  return steps.flatMap(({ id, path }) => {
    if (!seen.has(id)) {
      seen.add(id);
      return [];
    }
    const message = `is ${id}, which is the id of an earlier step of this pipeline`;
    return [{ path: [...path, 'id'], message, hint: 'Give each step a unique id.' }];
  });
}

function checkStep(step: StepEntry): CompileFault[] {
  const faults: CompileFault[] = [];
  const { path } = step;
  if (path.filter((part) => typeof part === 'number').length > limits.pipelineDepthMax) {
    faults.push({ path, message: `is nested deeper than ${limits.pipelineDepthMax} steps` });
  }
  if (isAlways(step.when, false)) {
    faults.push({ path: [...path, 'if'], message: 'never holds, so the step is never reached' });
  }
  if (step.mode === 'foreach' && !canBeList(step.items)) {
    const message = 'must be a list, or a path to one such as payload.items';
    faults.push({ path: [...path, 'foreach'], message });
  }
  if (step.mode === 'switch') faults.push(...checkArms(step));
  return faults;
}

function canBeList(items: Template): boolean {
  return 'value' in items ? Array.isArray(items.value) : 'ref' in items || 'list' in items;
}

/** Reports cases after one that always holds, because they are never reached. */
function checkArms({ path, cases, otherwise }: SwitchEntry): CompileFault[] {
  const certain = cases.findIndex(({ when }) => isAlways(when, true));
  const never = cases.filter(({ when }) => isAlways(when, false));
  const after = certain === -1 ? [] : cases.slice(certain + 1);
  const faults: CompileFault[] = [...after, ...never].map((arm) => ({
    path: arm.path,
    message: after.includes(arm) ? UNREACHABLE : 'never holds, so its steps are never reached',
  }));
  if (certain !== -1 && otherwise !== undefined) {
    faults.push({ path: [...path, 'otherwise'], message: UNREACHABLE });
  }
  return faults;
}

const UNREACHABLE = 'is never reached, since an earlier case always holds';

function isAlways(condition: Condition | undefined, value: boolean): boolean {
  return condition !== undefined && 'cel' in condition && condition.cel.trim() === String(value);
}

/** Reports calls of unknown pipelines, and the first path on which a pipeline calls itself. */
export function checkCalls(entry: PipelineEntry, library: PipelineLibrary): CompileFault[] {
  const { pipelines, suggest } = library;
  const unknown = callsIn(entry).filter(({ call }) => !pipelines.has(call));
  const faults = unknown.map(({ call, path }) => ({
    path: [...path, 'call'],
    message: `names ${call}, which is not a pipeline`,
    hint: suggest(call, [...pipelines.keys()], 'pipelines'),
  }));
  return [...faults, ...findCycle(entry, library)];
}

function findCycle(entry: PipelineEntry, { pipelines }: PipelineLibrary): CompileFault[] {
  for (const { call, path } of callsIn(entry)) {
    const cycle = findPathBack(call, entry.name, pipelines, new Set());
    if (cycle === undefined) continue;
    const message = `forms a loop: ${[entry.name, ...cycle].join(' → ')}`;
    return [{ path: [...path, 'call'], message, hint: 'A pipeline cannot call itself.' }];
  }
  return [];
}

function findPathBack(
  from: string,
  to: string,
  pipelines: PipelineLibrary['pipelines'],
  seen: Set<string>,
): string[] | undefined {
  if (from === to) return [to];
  if (seen.has(from)) return undefined;
  seen.add(from);
  const entry = pipelines.get(from);
  for (const { call } of entry === undefined ? [] : callsIn(entry)) {
    const rest = findPathBack(call, to, pipelines, seen);
    if (rest !== undefined) return [from, ...rest];
  }
  return undefined;
}

/** True if following the calls never ends, even if the cycle is in a called pipeline. */
export function hasEndlessCalls(
  entry: PipelineEntry,
  library: PipelineLibrary,
  callers: readonly string[] = [],
  acyclic: Set<string> = new Set(),
): boolean {
  if (callers.includes(entry.name)) return true;
  if (acyclic.has(entry.name)) return false;
  const isCycle = callsIn(entry).some(({ call }) => {
    const called = library.pipelines.get(call);
    return (
      called !== undefined && hasEndlessCalls(called, library, [...callers, entry.name], acyclic)
    );
  });
  if (!isCycle) acyclic.add(entry.name);
  return isCycle;
}

function callsIn({ steps }: PipelineEntry): CallEntry[] {
  return flattenSteps(steps).filter((step) => step.mode === 'call');
}

/** The surroundings that a pipeline is compiled with. */
export interface PipelineLibrary {
  readonly pipelines: ReadonlyMap<string, PipelineEntry>;
  /** Finds the command that `uses` names, with its default number of attempts. */
  readonly resolve: (uses: string) => ResolvedCommand | UnresolvedCommand;
  /** Returns a hint for a word that isn't among the known ones. */
  readonly suggest: (word: string, known: readonly string[], what: string) => string;
}

export type ResolvedCommand = CommandTarget & { readonly maxAttempts: number | undefined };

interface UnresolvedCommand {
  readonly fault: string;
  readonly hint?: string | undefined;
}

/** A fault in a pipeline whose form is valid. */
export interface CompileFault {
  readonly path: EntryPath;
  readonly message: string;
  readonly hint?: string | undefined;
}
