/**
 * Backups of a server under load, each restored elsewhere: sound, with everything that had been
 * acknowledged before it was asked for, and nothing in it but the beginning of what happened.
 */
import { join } from 'node:path';
import type { Row } from '../../src/ledger/dialect.ts';
import { openLedger, type LedgerPlace } from '../../src/ledger/open.ts';
import { restoreLedger } from '../../src/ledger/restore.ts';
import { openRaw } from '../conformance/support.ts';
import { startLoad } from '../crash/support/load.ts';
import { between } from '../crash/support/random.ts';
import { makeStage, type Stage } from '../crash/support/stage.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually, type Database } from '../support/instance.ts';
import { campaign, type Trial } from './support/campaign.ts';

const isShort = process.env['DUCTILE_PROVE'] === undefined;

interface Copy {
  readonly path: string;
  /** Acknowledged before it was asked for. */
  readonly owed: readonly string[];
  /** The last that had been asked for when it was there. */
  readonly lastRef: number;
  readonly ms: number;
}

campaign('backup', { trials: 1, timeoutMs: 120_000 }, (trial) =>
  run(trial, trial.index % 2 === 0 ? 'sqlite' : 'postgres'),
);

async function run({ random }: Trial, database: Database) {
  const stage = await makeStage(database);
  await stage.start();
  const load = startLoad(stage.client, random);
  const directory = await makeDirectory();
  const copies: Copy[] = [];
  const count = isShort ? 1 : between(random, 2, 5);
  for (let index = 0; index < count; index += 1) {
    const enough = stage.client.history.length + between(random, 5, 30);
    await eventually('there is more to copy', () => stage.client.history.length >= enough);
    copies.push(await copy(stage, join(directory, `${index}.db`)));
  }
  await load.stop();
  await stage.drain();
  const { faults, counts } = await stage.judge();
  if (faults.length > 0) throw new Error(faults.join('\n'));
  const whole = await read(stage.place.config.state);
  for (const one of copies) await compare(one, whole, database);
  return { backups: copies.length, jobs: counts.jobs, backupMs: copies.map(({ ms }) => ms) };
}

async function copy({ client }: Stage, path: string): Promise<Copy> {
  const owed = client.history.flatMap(({ jobId }) => jobId ?? []);
  const before = performance.now();
  const { status, body } = await client.post('/system/backup', { to: path });
  if (status >= 300) throw new Error(`no backup: ${JSON.stringify(body)}`);
  const ms = Math.round(performance.now() - before);
  // Those that are under way have no answer yet.
  const UNANSWERED_MAX = 3;
  return { path, owed, lastRef: client.history.length + UNANSWERED_MAX, ms };
}

interface Story {
  readonly jobs: readonly Row[];
  readonly attempts: readonly Row[];
  readonly signals: readonly Row[];
}

async function read(place: LedgerPlace): Promise<Story> {
  const raw = openRaw(place);
  try {
    return {
      jobs: await raw.run('select id, seq, plugin, status, payload, parent_job_id from job_queue'),
      attempts: await raw.run('select id, job_id, status, completed_at from job_log'),
      signals: await raw.run('select id, type, job_id, job_attempt from signals'),
    };
  } finally {
    await raw.close();
  }
}

async function compare({ path, owed, lastRef }: Copy, whole: Story, database: Database) {
  const place = { kind: 'sqlite', path: join(await makeDirectory(), 'restored.db') } as const;
  await restoreLedger(path, place);
  const ledger = await openLedger(place);
  const problems = await ledger.check();
  await ledger.close();
  const part = await read(place);
  const faults = [
    ...problems,
    ...missing(owed, part),
    ...unasked(part, lastRef),
    ...changed(part, whole),
    ...half(part),
    ...(database === 'sqlite' ? gaps(part, whole) : []),
  ];
  if (faults.length > 0) throw new Error(`${path}: ${faults.slice(0, 5).join('; ')}`);
}

function missing(owed: readonly string[], { jobs }: Story): string[] {
  const there = new Set(jobs.map(({ id }) => id));
  return owed.filter((id) => !there.has(id)).map((id) => `${id} was acknowledged and is not in it`);
}

function unasked({ jobs }: Story, lastRef: number): string[] {
  const refOf = ({ payload }: Row): number => (JSON.parse(String(payload)) as { ref: number }).ref;
  return jobs
    .filter((job) => job['parent_job_id'] === null && refOf(job) > lastRef)
    .map((job) => `${job['id']} was not asked for yet`);
}

/** What has ended is the same for ever. */
function changed(part: Story, whole: Story): string[] {
  const known = new Set([...whole.attempts, ...whole.signals].map((row) => JSON.stringify(row)));
  return [...part.attempts, ...part.signals]
    .map((row) => JSON.stringify(row))
    .filter((row) => !known.has(row))
    .map((row) => `${row} is another in the end`);
}

/** A success, its signal and its follower are there together. */
function half({ jobs, signals }: Story): string[] {
  const told = new Set(signals.map((signal) => signal['job_id']));
  const followed = new Set(jobs.map((job) => job['parent_job_id']));
  return jobs
    .filter(({ plugin }) => plugin === 'recorder')
    .filter(({ id, status }) => {
      const isDone = status === 'succeeded';
      return told.has(id ?? null) !== isDone || followed.has(id ?? null) !== isDone;
    })
    .map(({ id, status }) => `${id} is ${status}, and what follows from that is not in it`);
}

/** One writer: what came before something that is in it is in it, too. */
function gaps(part: Story, whole: Story): string[] {
  const there = new Set(part.jobs.map(({ id }) => id));
  const last = Math.max(0, ...part.jobs.map(({ seq }) => Number(seq)));
  return whole.jobs
    .filter(({ id, seq }) => Number(seq) <= last && !there.has(id ?? null))
    .map(({ id }) => `${id} came before others that are in it, and is not`);
}
