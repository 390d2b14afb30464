import { limits } from '../base/limits.ts';
import type { Job } from './job.ts';
import type { Row, Session } from '../ledger/dialect.ts';
import type { Line, RunningJob } from '../tenant/outlook.ts';
import { hasNoKey } from './dependency.sql.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { isReady } from './waiting.sql.ts';

/** Rows that are read so as to name who is in the way; one is enough to say that there is somebody. */
const RUNNING_ROWS_MAX = 500;
const AHEAD_MAX = 1000;

/** Who runs, and how many of the job's plugin are before it; both by the index of just these rows. */
export async function readLine(
  session: Session,
  { plugin, seq }: Pick<Job, 'plugin' | 'seq'>,
): Promise<Line> {
  const jobs = session.dialect.table('job_queue');
  const running = await session.run(
    `select id, plugin, command, started_at, claim_expires_at, claimed_by, dedupe_key,
        dependency_key, suspect
      from ${jobs} where status = 'running' order by plugin limit ?`,
    [RUNNING_ROWS_MAX],
  );
  const [before] = await session.run(
    `select count(*) as n from (select 1 as one from ${jobs}
      where ${isReady} and ${hasNoKey('job_queue')} and plugin = ? and seq < ? limit ?) found`,
    [plugin, seq, AHEAD_MAX],
  );
  return { running: running.map(toRunning), ahead: int(before ?? {}, 'n') };
}

/** By the index of a plugin's attempts; of a plugin with many commands only the last attempts count. */
export async function listRunDurations(
  session: Session,
  { plugin, command }: Pick<Job, 'plugin' | 'command'>,
): Promise<number[]> {
  const rows = await session.run(
    `select run_ms from (select command, status, run_ms, completed_at, id
        from ${session.dialect.table('job_log')} where plugin = ?
        order by completed_at desc, id desc limit ?) last
      where command = ? and status = 'succeeded' and run_ms is not null
      order by completed_at desc, id desc`,
    [plugin, limits.checks.usualAttemptsRead, command],
  );
  return rows.map((row) => int(row, 'run_ms'));
}

function toRunning(row: Row): RunningJob {
  return {
    id: text(row, 'id'),
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    startedAt: textOrNull(row, 'started_at'),
    claimExpiresAt: textOrNull(row, 'claim_expires_at'),
    claimedBy: textOrNull(row, 'claimed_by'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
    dependencyKey: textOrNull(row, 'dependency_key'),
    suspect: row['suspect'] === 1,
  };
}
