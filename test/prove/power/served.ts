/** A server under load, killed and stopped again and again, with a journal of what it did to its disk. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Operation } from '../../support/crash/client.ts';
import { startLoad } from '../../support/crash/load.ts';
import { makeMixedJobOptions, mixed } from '../../support/crash/mixed-work.ts';
import { between, makeRandom, pick, type Random } from '../../support/crash/random.ts';
import type { Server } from '../../support/crash/server.ts';
import { makeCrashTest, type CrashTest } from '../../support/crash/crash-test.ts';
import { makeDirectory } from '../../support/directory.ts';
import { eventually } from '../../support/instance.ts';
import type { Trial } from '../support/campaign.ts';
import { journalTo, monotonicMs, readDiskJournal, type DiskEntry } from './disk-journal.ts';

/** A fact that a client learned, and the time. */
export interface Observation<T> {
  readonly what: T;
  readonly atMs: number;
}

export interface ServerHistory {
  readonly crashTest: CrashTest;
  readonly entries: readonly DiskEntry[];
  readonly answers: readonly Observation<Operation>[];
  /** Jobs that were reported as succeeded. */
  readonly successes: readonly Observation<string>[];
  /** The offset from the monotonic clock to the time of day. */
  readonly dayMs: number;
  readonly kills: number;
  readonly stops: number;
}

const LOAD_SEED = 1_000_000_007;
const rounds = [1, 3] as const;
const requests = [5, 40] as const;
/** In `npm test`. */
const REQUESTS_SHORT = 8;
const afterMs = [0, 300] as const;
const stoppingMs = [0, 200] as const;
/**
 * The durations of a sync: a disk with memory of its own, a quick one, and a busy one that turns.
 */
const syncUs = [0, 1000, 5000, 30_000] as const;
const PADDING_MAX = 6000;
/** Large enough that the journal is put into the file now and then. */
const LARGE = 400_000;
const LARGE_SHARE = 0.2;
const LOOK_MS = 10;
const PATIENCE_MS = 60_000;

export async function serve({ seed, random, isShort }: Trial): Promise<ServerHistory> {
  const file = join(await makeDirectory(), 'journal');
  const slowUs = pick(syncUs, random);
  let isJournaled = true;
  const crashTest = await makeCrashTest('sqlite', { max_workers: 3 }, mixed, () =>
    isJournaled ? journalTo(file, crashTest.place.directory, slowUs) : {},
  );
  const answers: Observation<Operation>[] = [];
  const load = startLoad(
    {
      ...crashTest.client,
      async enqueue(jobOptions) {
        const what = await crashTest.client.enqueue(jobOptions);
        answers.push({ what, atMs: monotonicMs() });
        return what;
      },
    },
    makeRandom(seed + LOAD_SEED),
    makePaddedWishes(),
  );
  const looking = startLooking(crashTest);
  const counts = { kills: 0, stops: 0 };
  for (let left = isShort ? 1 : between(random, ...rounds); left > 0; left -= 1) {
    const server = await crashTest.start();
    const taken = (): number =>
      answers.filter(({ what }) => what.outcome === 'acknowledged').length;
    const target = taken() + (isShort ? REQUESTS_SHORT : between(random, ...requests));
    await eventually('requests were taken', () => taken() >= target, PATIENCE_MS);
    await sleep(between(random, ...afterMs));
    counts[await end(server, random)] += 1;
  }
  await load.stop();
  const successes = await looking.stop();
  isJournaled = false;
  const entries = readDiskJournal(file);
  return { crashTest, entries, answers, successes, dayMs: Date.now() - monotonicMs(), ...counts };
}

function makePaddedWishes(): ReturnType<typeof makeMixedJobOptions> {
  const makeJobOptions = makeMixedJobOptions();
  return (random) => {
    const length = random() < LARGE_SHARE ? LARGE : between(random, 0, PADDING_MAX);
    return { ...makeJobOptions(random), padding: 'x'.repeat(length) };
  };
}

/** At any moment, or in good order, or at any moment of that. */
async function end(server: Server, random: Random): Promise<'kills' | 'stops'> {
  const how = random();
  if (how > 0.3) {
    await server.kill();
    return 'kills';
  }
  server.signal('SIGTERM');
  if (how < 0.15) await server.exited;
  else await sleep(between(random, ...stoppingMs));
  await server.kill();
  return 'stops';
}

/** A reader that polls the state of the jobs. */
function startLooking({ client }: CrashTest) {
  const successes = new Map<string, number>();
  const stopping = new AbortController();
  const look = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const answer = await client.get('/jobs?status=succeeded&limit=50').catch(() => undefined);
      const jobs = (answer?.body['jobs'] ?? []) as { readonly job_id: string }[];
      for (const { job_id: id } of jobs) if (!successes.has(id)) successes.set(id, monotonicMs());
      await sleep(LOOK_MS);
    }
  };
  const looking = look();
  return {
    async stop(): Promise<Observation<string>[]> {
      stopping.abort();
      await looking;
      return [...successes].map(([what, atMs]) => ({ what, atMs }));
    },
  };
}
