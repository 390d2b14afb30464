/** The content of a ledger, and whether it is a prefix of another's. */
import type { Row } from '../../../src/ledger/dialect.ts';
import type { LedgerLocation } from '../../../src/ledger/open.ts';
import { openRaw } from '../../support/ledger/bench.ts';

export interface Story {
  readonly jobs: readonly Row[];
  readonly attempts: readonly Row[];
  readonly signals: readonly Row[];
  readonly runs: readonly Row[];
}

export interface KnownFacts {
  /** The rows that had been acknowledged before. */
  readonly owed: readonly string[];
  /** The last request that was sent. */
  readonly lastRef: number;
  /** Everything before a row on the ledger is on it, too. */
  readonly hasOneWriter: boolean;
}

export async function readStory(place: LedgerLocation): Promise<Story> {
  const raw = openRaw(place);
  try {
    return {
      jobs: await raw.run(`select id, seq, plugin, status, attempt, payload, completed_at,
        parent_job_id, run_id, schedule_id from job_queue`),
      attempts: await raw.run('select id, job_id, status, completed_at from job_log'),
      signals: await raw.run('select id, type, job_id, job_attempt from signals'),
      runs: await raw.run('select id, status, output, completed_at from pipeline_runs'),
    };
  } finally {
    await raw.close();
  }
}

/** Faults of a partial copy. */
export function comparePart(part: Story, whole: Story, known: KnownFacts): string[] {
  return [
    ...missing(known.owed, part),
    ...unasked(part, known.lastRef),
    ...changed(part, whole),
    ...half(part),
    ...(known.hasOneWriter ? gaps(part, whole) : []),
  ];
}

function missing(owed: readonly string[], { jobs, runs }: Story): string[] {
  const there = new Set([...jobs, ...runs].map(({ id }) => id));
  return owed.filter((id) => !there.has(id)).map((id) => `${id} was acknowledged and is not in it`);
}

function unasked({ jobs }: Story, lastRef: number): string[] {
  return jobs
    .filter((job) => isAsked(job) && wishOf(job).ref > lastRef)
    .map((job) => `${job['id']} was not asked for yet`);
}

/** An ended job never changes. */
function changed(part: Story, whole: Story): string[] {
  const known = new Set(ended(whole));
  return ended(part)
    .filter((row) => !known.has(row))
    .map((row) => `${row} is another in the end`);
}

function ended({ jobs, attempts, signals, runs }: Story): string[] {
  const over = [...jobs, ...runs].filter((row) => row['completed_at'] !== null);
  return [...attempts, ...signals, ...over].map((row) => JSON.stringify(row));
}

/** A success, its signal and its follower are there together. */
function half({ jobs, signals }: Story): string[] {
  const signalled = new Set(signals.map((signal) => signal['job_id']));
  const followed = new Set(jobs.map((job) => job['parent_job_id']));
  return jobs
    .filter((job) => job['plugin'] === 'recorder' && isAsked(job))
    .filter((job) => {
      const { id = null, status } = job;
      const isDone = status === 'succeeded';
      // A single job of each key has a follower.
      const isFollowed = wishOf(job).dedupe === undefined ? followed.has(id) : isDone;
      return signalled.has(id) !== isDone || isFollowed !== isDone;
    })
    .map(({ id, status }) => `${id} is ${status}, and what follows from that is not in it`);
}

/** SQLite has a single writer: everything before a row in it is in it, too. */
function gaps(part: Story, whole: Story): string[] {
  const there = new Set(part.jobs.map(({ id }) => id));
  const last = Math.max(0, ...part.jobs.map(({ seq }) => Number(seq)));
  return whole.jobs
    .filter(({ id, seq }) => Number(seq) <= last && !there.has(id ?? null))
    .map(({ id }) => `${id} came before others that are in it, and is not`);
}

function isAsked(job: Row): boolean {
  return job['parent_job_id'] === null && job['run_id'] === null && job['schedule_id'] === null;
}

function wishOf({ payload }: Row): { readonly ref: number; readonly dedupe?: string } {
  return JSON.parse(String(payload)) as { ref: number };
}
