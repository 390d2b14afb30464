/** A server that runs through all slices, under a mixed load. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../../src/base/limits.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { openReadonlyLedger } from '../../../src/ledger/open-readonly.ts';
import { check } from '../../support/crash/checker.ts';
import {
  checkDeliveries,
  startDeliveries,
  type SentDelivery,
} from '../../support/crash/deliveries.ts';
import { refOf, type Evidence } from '../../support/crash/evidence.ts';
import { startLoad } from '../../support/crash/load.ts';
import { makeMixedJobOptions, mixed } from '../../support/crash/mixed-work.ts';
import { makeRandom } from '../../support/crash/random.ts';
import { recorder } from '../../support/crash/recorder.ts';
import type { Server } from '../../support/crash/server.ts';
import { collectEvidence, makeCrashTest, type CrashTest } from '../../support/crash/crash-test.ts';
import { atEnd } from '../../support/at-end.ts';
import { eventually, type Database } from '../../support/instance.ts';
import { succeeds } from '../../support/plugin-program.ts';
import type { Trial } from '../support/campaign.ts';
import { makeJournal, type Journal } from '../support/journal.ts';
import type { Figures } from '../support/report.ts';
import { stopSchedule } from '../support/cluster.ts';
import { watchTime } from '../support/starved.ts';
import { makeCourse, type Course } from './course.ts';
import { disturb } from './disturb.ts';
import { collecting } from './collect.ts';
import { takeFloor, takeSample, type Sample } from './sample.ts';
import { SOURCE, startSignals } from './signals.ts';

export interface Installation {
  /** Runs the load for this time, waits until all work is done, and throws when a promise was broken. */
  slice(trial: Trial, ms: number): Promise<Figures>;
}

const SAMPLE_MS = 1000;
const LOAD_SEED = 1_000_000_007;
/** Deliveries and signals come now and then, the rest as quickly as it is done. */
const pace = { senders: 1, restMs: 150 };
const taker = 'taker';
const SIGNALS_MAX = 1_000_000;
const FAULTS_SHOWN = 20;

/** `keep` is the retention of history: longer than a slice, so that the slice can be checked. */
export async function openInstallation(database: Database, keep: string): Promise<Installation> {
  const file = '../../record';
  const prewarmed = { config: { file, emits: true }, prewarm: 2 };
  const crashTest = await makeCrashTest(
    database,
    {
      max_workers: 3,
      dedupe_ttl: keep,
      job_queue_retention: keep,
      job_log_retention: keep,
      signal_retention: keep,
      context_retention: keep,
    },
    {
      ...mixed,
      webhooks: { listen: '127.0.0.1:0' },
      plugins: {
        recorder: { program: recorder, manifest: 'prewarm: true', settings: prewarmed },
        [taker]: { program: succeeds },
      },
    },
    () => collecting,
    atEnd,
  );
  const server = await crashTest.start();
  const course = makeCourse();
  return { slice: (trial, ms) => runSlice({ crashTest, server, course, trial, ms }) };
}

interface Slice {
  readonly crashTest: CrashTest;
  readonly server: Server;
  readonly course: Course;
  readonly trial: Trial;
  readonly ms: number;
}

async function runSlice(slice: Slice): Promise<Figures> {
  const { crashTest, server, course, trial, ms } = slice;
  const { client, place } = crashTest;
  const beganAt = Date.now();
  const known = client.history.length;
  const journal = makeJournal();
  const watch = watchTime([server], (fromMs) => journal.note('starved', fromMs, 'other'));
  await client.post('/schedules/ticker/resume');
  const webhookId = `soak-${trial.index}`;
  const deliveries = startDeliveries(await addHook(crashTest, webhookId), client, () => server, {
    ...pace,
    webhookId,
  });
  const wishes = makeMixedJobOptions(`slice-${trial.index}`);
  const load = startLoad(client, makeRandom(trial.seed + LOAD_SEED), wishes);
  const signals = startSignals(client, pace.restMs);
  const [samples] = await Promise.all([
    sampleFor(slice),
    disturb({ server, random: trial.random, ms, journal }),
  ]);
  const [sent, emitted] = await Promise.all([deliveries.stop(), signals.stop(), load.stop()]);
  await stopSchedule(crashTest);
  await crashTest.drain();
  watch.stop();
  const seen = { fromMs: beganAt, known, webhookId, sent, emitted, journal };
  const found = await verify(crashTest, seen);
  await writeFile(join(place.directory, 'record'), '');
  await tidy(crashTest, webhookId);
  const areCollected = async (): Promise<boolean> =>
    (await takeSample(server, place)).zombies === 0;
  await eventually('children that ended are collected', areCollected);
  const floor = await takeFloor(server, place);
  return { ...found, ...course.add([...samples, floor], Date.now() - beganAt) };
}

/** A server with more and more webhooks and history would need more and more memory. */
async function tidy({ client }: CrashTest, webhookId: string): Promise<void> {
  const removed = await client.remove(`/webhooks/${webhookId}`);
  if (removed.status !== 200) throw new Error(`removing a webhook was answered ${removed.status}`);
  const pruned = await client.post('/system/prune', {});
  if (pruned.status !== 200) throw new Error(`pruning was answered ${pruned.status}`);
}

async function addHook({ client }: CrashTest, id: string): Promise<string> {
  const hook = { title: 'T', id, plugin: taker, command: 'poll', auth_mode: 'github' };
  const { status, body } = await client.post('/webhooks', {
    ...hook,
    rate_limit_per_minute: limits.webhookRateMax,
  });
  if (status >= 300) throw new Error(`a webhook was answered ${status}`);
  return body['secret'] as string;
}

async function sampleFor({ crashTest, server, ms }: Slice): Promise<Sample[]> {
  const until = performance.now() + ms;
  const samples: Sample[] = [];
  while (performance.now() < until) {
    await sleep(Math.min(SAMPLE_MS, until - performance.now()));
    samples.push(await takeSample(server, crashTest.place));
  }
  return samples;
}

/** The clients' knowledge of one slice. */
interface SliceRecord {
  readonly fromMs: number;
  /** The number of requests in earlier slices. */
  readonly known: number;
  readonly webhookId: string;
  readonly sent: readonly SentDelivery[];
  readonly emitted: readonly string[];
  readonly journal: Journal;
}

/**
 * Checks one slice while the server continues; earlier slices were checked, and may be pruned by
 * now.
 */
async function verify(crashTest: CrashTest, seen: SliceRecord): Promise<Figures> {
  const { webhookId, sent, journal } = seen;
  const ledger = await openReadonlyLedger(crashTest.place.config.state);
  try {
    const evidence = await gatherSlice(crashTest, ledger, seen);
    const verdict = check({ ...evidence, disturbances: journal.entries });
    const deliveries = await checkDeliveries(ledger, webhookId, sent);
    const lost = await findLostSignals(ledger, seen.emitted);
    const faults = [...verdict.faults, ...deliveries.faults, ...lost];
    if (faults.length > 0) throw new Error(faults.slice(0, FAULTS_SHOWN).join('\n'));
    const figures = { ...journal.tell(evidence), ...verdict.counts };
    return { ...figures, deliveries: sent.length, signals: seen.emitted.length };
  } finally {
    await ledger.close();
  }
}

async function gatherSlice(
  crashTest: CrashTest,
  ledger: Ledger,
  { fromMs, known }: SliceRecord,
): Promise<Evidence> {
  const { history } = crashTest.client;
  const all = await collectEvidence(ledger, history.slice(known), await crashTest.record());
  const earlier = history.slice(0, known).reduce((last, { ref }) => Math.max(last, ref), 0);
  const jobs = all.jobs.filter(
    ({ plugin, createdAt }) => plugin !== taker && Date.parse(createdAt) >= fromMs,
  );
  const ids = new Set(jobs.map(({ id }) => id));
  return {
    ...all,
    jobs,
    attempts: all.attempts.filter(({ jobId }) => ids.has(jobId)),
    signals: all.signals.filter(({ jobId }) => jobId !== null && ids.has(jobId)),
    runs: all.runs.filter((run) => refOf(run) > earlier),
  };
}

async function findLostSignals(ledger: Ledger, ids: readonly string[]): Promise<string[]> {
  const emittedSignals = await ledger.signals.list({ source: SOURCE, limit: SIGNALS_MAX });
  const known = new Set(emittedSignals.map(({ id }) => id));
  return ids.filter((id) => !known.has(id)).map((id) => `lost: signal ${id} was acknowledged`);
}
