/** A connection to PostgreSQL that holds locks, so that others wait at a known point. */
import { expect, onTestFinished, vi } from 'vitest';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { makePostgresDialect } from '../../../src/ledger/postgres/store.ts';
import { makeClient, openBench, type Bench } from './bench.ts';

export interface Barrier {
  /** Takes locks with a statement, in a transaction that stays open until `lift`. */
  readonly hold: (sql: string, values?: readonly unknown[]) => Promise<void>;
  /** Holds the lock that claims of this ledger take. */
  readonly holdClaims: () => Promise<void>;
  /** Holds the lock under which the queue of this ledger is counted. */
  readonly holdQueue: () => Promise<void>;
  /** Resolves when so many connections of the ledger wait for a lock. */
  readonly untilWaiting: (count: number) => Promise<number[]>;
  /** Releases the locks by a rollback (default) or a commit. */
  readonly lift: (how?: 'rollback' | 'commit') => Promise<void>;
  readonly terminate: (pids: readonly number[]) => Promise<void>;
}

export async function openBarrier({ place }: Bench): Promise<Barrier> {
  if (place.kind !== 'postgres') throw new Error('there are no row locks in SQLite');
  const { url, schema } = place;
  const { lockClaims = '', lockQueue = '' } = makePostgresDialect(schema);
  const [holder, watcher] = [makeClient(url), makeClient(url)];
  await Promise.all([holder.connect(), watcher.connect()]);
  onTestFinished(async () => {
    await Promise.all([holder.end(), watcher.end()]);
  });
  await holder.query(`set search_path to "${schema}"`);
  let held = false;
  const hold = async (sql: string, values: readonly unknown[] = []): Promise<void> => {
    if (!held) await holder.query('begin');
    held = true;
    await holder.query(sql, [...values]);
  };
  const findWaiting = async (): Promise<number[]> => {
    const { rows } = await watcher.query<{ pid: number }>(
      `select pid from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database()`,
    );
    return rows.map(({ pid }) => pid);
  };
  return {
    hold,
    holdClaims: () => hold(lockClaims),
    holdQueue: () => hold(lockQueue),
    async untilWaiting(count) {
      let pids: number[] = [];
      await vi.waitFor(
        async () => {
          pids = await findWaiting();
          expect(pids).toHaveLength(count);
        },
        { timeout: 120_000, interval: 5 },
      );
      return pids;
    },
    async lift(how = 'rollback') {
      held = false;
      await holder.query(how);
    },
    async terminate(pids) {
      for (const pid of pids) await watcher.query('select pg_terminate_backend($1)', [pid]);
    },
  };
}

export interface Meeting extends Bench {
  readonly other: Ledger;
  readonly barrier: Barrier;
}

export async function openMeeting(): Promise<Meeting> {
  const bench = await openBench('postgres');
  return { ...bench, other: await bench.open(), barrier: await openBarrier(bench) };
}

/** Starts both functions, waits until both wait for the barrier, and releases them. */
export async function runTogether<A, B>(
  barrier: Barrier,
  one: () => Promise<A>,
  two: () => Promise<B>,
): Promise<[A, B]> {
  const first = one();
  await barrier.untilWaiting(1);
  const second = two();
  await barrier.untilWaiting(2);
  await barrier.lift();
  return Promise.all([first, second]);
}
