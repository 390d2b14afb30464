import {
  wasRequested,
  type Disturbance,
  type Evidence,
  type SeenAttempt,
  type SeenJob,
  type SeenRun,
} from './evidence.ts';
import { tickEveryMs } from './mixed-work.ts';
import type { JobOptions } from './recorder.ts';

/** Tolerance between clock readings of different programs. */
const SKEW_MS = 50;
/** Time after a fault in which attempts may still fail because of it. */
const AFTERMATH_MS = 3000;

interface SpreadOutput {
  readonly each: readonly { readonly item: number; readonly index: number }[];
}

/** Checks that every run joined once: one job per element, one after all of them, and outputs in order. */
export function checkWorkflows({ runs, jobs }: Evidence): string[] {
  const jobsOf = Map.groupBy(jobs, ({ runId }) => runId ?? '');
  return runs.flatMap((run) => checkRun(run, jobsOf.get(run.id) ?? []));
}

function checkRun({ id, status, haltMessage, payload, output }: SeenRun, jobs: SeenJob[]) {
  if (status !== 'succeeded') return [`unfinished: run ${id} is left ${status}: ${haltMessage}`];
  const faults: string[] = [];
  const { items } = JSON.parse(payload) as { readonly items: readonly number[] };
  const { each } = JSON.parse(output ?? '{"each":[]}') as SpreadOutput;
  if (each.map(({ item }) => item).join() !== items.join())
    faults.push(`run ${id} joined ${each.map(({ item }) => item).join()}, not ${items.join()}`);
  const elements = jobs.filter(({ plugin }) => plugin === 'element').map(indexOf);
  if (elements.sort((a, b) => a - b).join() !== [...items.keys()].join())
    faults.push(`run ${id} has jobs for the elements ${elements.join()}`);
  const last = jobs.filter(({ plugin }) => plugin === 'last').length;
  if (last !== 1) faults.push(`run ${id} went on ${last} times after its block`);
  return faults;
}

function indexOf({ payload }: SeenJob): number {
  return (JSON.parse(payload) as { readonly index: number }).index;
}

/** Checks that each slot has one job, and that an interval starts after the last job. */
export function checkSchedules({ jobs, clockWasSet = false }: Evidence): string[] {
  const faults: string[] = [];
  const ticks = jobs.filter(({ scheduleId }) => scheduleId !== null);
  for (const [slot, same] of Map.groupBy(ticks, ({ scheduleSlot }) => scheduleSlot))
    if (same.length > 1) faults.push(`the slot ${slot} has ${same.length} jobs`);
  if (clockWasSet) return faults;
  const inOrder = ticks.toSorted((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
  for (const [index, { id, createdAt }] of inOrder.entries()) {
    const before = inOrder[index - 1];
    if (before === undefined) continue;
    const sinceMs = Date.parse(createdAt) - Date.parse(before.completedAt ?? createdAt);
    if (sinceMs < tickEveryMs - SKEW_MS)
      faults.push(`${id} was due ${sinceMs} ms after ${before.id} had ended`);
  }
  return faults;
}

/** Checks that each dedupe key has one run, and one job that follows from all its jobs. */
export function checkKeys({ jobs, runs }: Evidence): string[] {
  const followers = Map.groupBy(jobs, ({ dedupeKey }) => dedupeKey);
  const expected = new Set(
    jobs.filter(wasRequested).flatMap(({ payload }) => optionsIn(payload).dedupe ?? []),
  );
  const ofJobs = [...expected]
    .map((key) => ({ key, ids: (followers.get(key) ?? []).map(({ id }) => id) }))
    .filter(({ ids }) => ids.length !== 1)
    .map(({ key, ids }) => `the key ${key} has ${ids.length} followers: ${ids.join(', ')}`);
  const ofRuns = [...Map.groupBy(runs, ({ dedupeKey }) => dedupeKey)]
    .filter(([key, same]) => key !== null && same.length > 1)
    .map(([key, same]) => `the key ${key} has ${same.length} runs`);
  return [...ofJobs, ...ofRuns];
}

/** Checks that every interrupted attempt was near a disturbance, and that failed ones were requested to fail. */
export function checkRepeats({ jobs, attempts, disturbances }: Evidence): string[] {
  const optionsOf = new Map(jobs.map(({ id, payload }) => [id, optionsIn(payload).fail_before]));
  return attempts.flatMap((row) => {
    const name = `attempt ${row.attempt} at ${row.jobId}`;
    if (row.status === 'failed' && row.attempt >= (optionsOf.get(row.jobId) ?? 0))
      return [`unexplained: ${name} failed of itself`];
    const cut = row.status === 'crashed' || row.status === 'released';
    if (!cut || disturbances === undefined || isExplained(row, disturbances)) return [];
    return [`unexplained: ${name} is ${row.status} (${row.cause}), and nothing had happened`];
  });
}

function optionsIn(payload: string): Pick<JobOptions, 'dedupe' | 'fail_before'> {
  return JSON.parse(payload) as JobOptions;
}

function isExplained(row: SeenAttempt, disturbances: readonly Disturbance[]): boolean {
  const until = Date.parse(row.completedAt) + SKEW_MS;
  const from = Date.parse(row.startedAt ?? row.completedAt) - AFTERMATH_MS;
  return disturbances.some(({ fromMs, untilMs }) => fromMs <= until && untilMs >= from);
}
