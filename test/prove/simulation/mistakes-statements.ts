/** Mistakes in statements: a missing condition, a wrong number. */
import type { Mistake } from './world.ts';

/** The found condition becomes true; its parameters stay where they are. */
function without(condition: RegExp): Mistake {
  return { rewrite: (sql) => sql.replace(condition, '($& or true)') };
}

function instead(text: RegExp, other: string): Mistake {
  return { rewrite: (sql) => sql.replace(text, other) };
}

/** The log's unique row per attempt would otherwise stop what the missing fence allows. */
function unnoticed(sql: string): string {
  return sql.replace(/insert into job_log/, 'insert or ignore into job_log');
}

export const mistakesInStatements: Readonly<Record<string, Mistake>> = {
  'no fence': {
    rewrite: (sql) =>
      unnoticed(sql)
        .replace(
          /job_queue\.status = case when \?\d+ is null then 'queued' else 'running' end/,
          '($& or true)',
        )
        .replace(/job_queue\.claim_token is not distinct from \?\d+/, '($& or true)')
        .replace(/job_queue\.attempt = \?\d+/, '($& or true)'),
  },
  'a fence that forgets the token and the attempt': {
    rewrite: (sql) =>
      unnoticed(sql)
        .replace(/job_queue\.claim_token is not distinct from \?\d+/, '($& or true)')
        .replace(/job_queue\.attempt = \?\d+/, '($& or true)'),
  },
  'a fence that forgets who asked for an end': without(
    /job_queue\.cancel_requested_at is null or \?\d+ in \('succeeded', 'cancelled'\)/,
  ),
  'attempts that are not counted': instead(
    /attempt = job_queue\.attempt \+ case/,
    'attempt = job_queue.attempt + 0 * case',
  ),
  'failures that are not counted': instead(
    /retry_count = (\?\d+)/,
    'retry_count = min($1, job_queue.retry_count)',
  ),
  'claims before their time': without(/h\.next_retry_at is null/),
  'everything is ready at once': without(/next_retry_at <= \(select [^)]*\)\)/),
  'a promotion that promotes nothing': instead(
    /set next_retry_at = null/,
    'set next_retry_at = next_retry_at',
  ),
  'running jobs that nobody counts': instead(
    /from job_queue where status = 'running' group by plugin/,
    "from job_queue where status = 'none' group by plugin",
  ),
  'processes that are dead at once': {
    rewrite: (sql) =>
      sql.replace(
        /(processes\.)?last_heartbeat_at <= (\(select )?strftime\([^)]*\)+/g,
        '($& or true)',
      ),
  },
  'claims that expire at once': without(/claim_expires_at <= \(select [^)]*\)\)/),
  'keys that block nothing': without(/d\.job_id = excluded\.job_id(?=\s+or)/),
  'a block that counts one branch too few': instead(
    /pending = run_branches\.pending - (\?\d+)/,
    'pending = max(0, run_branches.pending - $1 - 1)',
  ),
  'history that is deleted too soon': instead(
    /(select j\.seq from job_queue j\s+where j\.completed_at <= )\(select [^?]*\?[^)]*\) \|\| ' seconds'\)\)/,
    "$1(select '9999' where ? is not null)",
  ),
  'a process that is forgotten with its jobs': {
    rewrite: (sql) =>
      sql.startsWith('delete from processes')
        ? sql.replace('not exists', 'true or not exists')
        : sql,
  },
  'schedules that are never over': instead(
    /seq = schedules\.seq \+ (\?\d+)/,
    'seq = schedules.seq + 0 * $1',
  ),
};
