import { limits } from '../base/limits.ts';
import type { Session } from '../ledger/dialect.ts';
import type { DirectiveStatistics } from '../directive/types.ts';
import type { Timestamp } from '../base/clock.ts';
import { RARE_STATUSES } from '../ledger/migrations/0014-lists.ts';
import { readOldestReady } from '../job/queue.sql.ts';
import { int, text } from '../ledger/row.ts';

/** Counts and durations of attempts by plugin, command and status. */
export interface AttemptStatistics {
  readonly groups: readonly {
    readonly plugin: string;
    readonly command: string;
    readonly status: string;
    readonly attempts: number;
    /** Attempts that had a process. */
    readonly ran: number;
    readonly runMs: number;
    readonly maxRunMs: number;
    readonly queueMs: number;
  }[];
  /** True if older attempts in the same time were left out. */
  readonly truncated: boolean;
}

/** Counts of the queue by plugin. */
export interface QueueStatistics {
  /** Jobs that ended as dead in that time. */
  readonly dead: number;
  /** The time since which the oldest ready job waits. */
  readonly oldestReadyAt: Timestamp | null;
  readonly lanes: readonly {
    readonly plugin: string;
    readonly ready: number;
    readonly delayed: number;
    readonly running: number;
  }[];
}

/** Sums up the latest attempts of a window, by command and status. The number of rows is limited. */
export async function readAttemptStatistics(
  session: Session,
  windowMs: number,
): Promise<AttemptStatistics> {
  const { dialect } = session;
  const rows = await session.run(
    `select plugin, command, status, count(*) as attempts, count(run_ms) as ran,
      coalesce(sum(run_ms), 0) as run_ms, coalesce(max(run_ms), 0) as max_run_ms,
      coalesce(sum(queue_ms), 0) as queue_ms
    from (
      select plugin, command, status, run_ms, queue_ms from ${dialect.table('job_log')}
        where completed_at > (select ${dialect.nowPlus('?')})
        order by completed_at desc limit ?) latest
    group by plugin, command, status order by plugin, command, status`,
    [-windowMs, limits.statisticsRowsMax],
  );
  const groups = rows.map((row) => ({
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    status: text(row, 'status'),
    attempts: int(row, 'attempts'),
    ran: int(row, 'ran'),
    runMs: int(row, 'run_ms'),
    maxRunMs: int(row, 'max_run_ms'),
    queueMs: int(row, 'queue_ms'),
  }));
  const counted = groups.reduce((sum, { attempts }) => sum + attempts, 0);
  return { groups, truncated: counted === limits.statisticsRowsMax };
}

/** Counts ready, delayed and running jobs for each plugin, and the dead jobs of a window. */
export async function readQueueStatistics(
  session: Session,
  windowMs: number,
): Promise<QueueStatistics> {
  const { dialect } = session;
  const jobs = dialect.table('job_queue');
  // Each part has its own partial index.
  const rows = await session.run(
    `select plugin, sum(ready) as ready, sum(held) as held, sum(running) as running from (
      select plugin, count(*) as ready, 0 as held, 0 as running from ${jobs}
        where status = 'queued' and next_retry_at is null group by plugin
      union all
      select plugin, 0, count(*), 0 from ${jobs}
        where status = 'queued' and next_retry_at is not null group by plugin
      union all
      select plugin, 0, 0, count(*) from ${jobs} where status = 'running' group by plugin) parts
    group by plugin order by plugin`,
  );
  // Reads the index of rare states, newest first, up to the limit.
  const [ended] = await session.run(
    `select count(*) as dead from (select completed_at from ${jobs}
        where status = 'dead' and status in ${RARE_STATUSES} order by seq desc limit ?) dead
      where completed_at > (select ${dialect.nowPlus('?')})`,
    [limits.statisticsRowsMax, -windowMs],
  );
  const oldestReadyAt = await readOldestReady(session);
  return {
    dead: int(ended ?? {}, 'dead'),
    oldestReadyAt,
    lanes: rows.map((row) => ({
      plugin: text(row, 'plugin'),
      ready: int(row, 'ready'),
      delayed: int(row, 'held'),
      running: int(row, 'running'),
    })),
  };
}

/** Counts the directives that were requested and that ended in a window, and its signals. */
export async function readDirectiveStatistics(
  session: Session,
  windowMs: number,
): Promise<DirectiveStatistics> {
  const { dialect } = session;
  const since = `(select ${dialect.nowPlus('?')})`;
  const directives = dialect.table('directives');
  const [requested] = await session.run(
    `select count(*) as n from ${directives} where requested_at > ${since}`,
    [-windowMs],
  );
  const ended = await session.run(
    `select status, count(*) as n from (select status from ${directives}
      where completed_at > ${since} order by completed_at desc limit ?) latest group by status`,
    [-windowMs, limits.statisticsRowsMax],
  );
  const [emitted] = await session.run(
    `select count(*) as n from (select seq from ${dialect.table('signals')}
      where inserted_at > ${since} limit ?) latest`,
    [-windowMs, limits.statisticsRowsMax],
  );
  return {
    requested: int(requested ?? {}, 'n'),
    ended: Object.fromEntries(ended.map((row) => [text(row, 'status'), int(row, 'n')])),
    signals: int(emitted ?? {}, 'n'),
  };
}
