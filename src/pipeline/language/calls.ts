import type { CompileFault, Library } from './library.ts';
import { stepsIn, type CallEntry, type PipelineEntry } from './entry.ts';

/** Calls of pipelines that do not exist, and the first way on which a pipeline calls itself. */
export function checkCalls(entry: PipelineEntry, library: Library): CompileFault[] {
  const { pipelines, suggest } = library;
  const unknown = callsIn(entry).filter(({ call }) => !pipelines.has(call));
  const faults = unknown.map(({ call, path }) => ({
    path: [...path, 'call'],
    message: `names ${call}, which is not a pipeline`,
    hint: suggest(call, [...pipelines.keys()], 'pipelines'),
  }));
  return [...faults, ...findCycle(entry, library)];
}

function findCycle(entry: PipelineEntry, { pipelines }: Library): CompileFault[] {
  for (const { call, path } of callsIn(entry)) {
    const way = wayBack(call, entry.name, pipelines, new Set());
    if (way === undefined) continue;
    const message = `goes in a circle: ${[entry.name, ...way].join(' → ')}`;
    return [{ path: [...path, 'call'], message, hint: 'A pipeline cannot call itself.' }];
  }
  return [];
}

function wayBack(
  from: string,
  to: string,
  pipelines: Library['pipelines'],
  seen: Set<string>,
): string[] | undefined {
  if (from === to) return [to];
  if (seen.has(from)) return undefined;
  seen.add(from);
  const entry = pipelines.get(from);
  for (const { call } of entry === undefined ? [] : callsIn(entry)) {
    const rest = wayBack(call, to, pipelines, seen);
    if (rest !== undefined) return [from, ...rest];
  }
  return undefined;
}

/** Whether following the calls would never end, whoever is to blame for it. */
export function isEndless(
  entry: PipelineEntry,
  library: Library,
  way: readonly string[] = [],
  sound: Set<string> = new Set(),
): boolean {
  if (way.includes(entry.name)) return true;
  if (sound.has(entry.name)) return false;
  const isCircle = callsIn(entry).some(({ call }) => {
    const called = library.pipelines.get(call);
    return called !== undefined && isEndless(called, library, [...way, entry.name], sound);
  });
  if (!isCircle) sound.add(entry.name);
  return isCircle;
}

function callsIn({ steps }: PipelineEntry): CallEntry[] {
  return stepsIn(steps).filter((step) => step.mode === 'call');
}
