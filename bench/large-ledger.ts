/** Fills a ledger with jobs by a few large statements; through its functions a million would take an hour. */

export interface LargeLedger {
  readonly kind: 'sqlite' | 'postgres';
  readonly finished: number;
  readonly queued: number;
  /** Plugins of the finished jobs; the first one also has queued jobs. */
  readonly plugins: readonly [string, ...string[]];
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** Returns the statements, with table names without a schema. */
export function writeLargeLedger({ kind, finished, queued, plugins }: LargeLedger): string[] {
  const numbers = (count: number): string =>
    kind === 'sqlite'
      ? `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`
      : `with n(i) as (select generate_series(1, ${count}))`;
  // Ids start with a time, like real ones, so that newer ones follow them in every index.
  const hex = kind === 'sqlite' ? `printf('%012x', i)` : `lpad(to_hex(i), 12, '0')`;
  const id = (half: string): string => `'01930000-0000-7000-${half}-' || ${hex}`;
  const ago = (count: number): string => {
    // Spread evenly over a day that ended an hour ago.
    const ms = `${DAY_MS} - i * ${DAY_MS - 3_600_000}.0 / ${count}`;
    return kind === 'sqlite'
      ? `strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (-(${ms}) / 1000.0) || ' seconds')`
      : `to_char((now() - (${ms}) * interval '1 millisecond') at time zone 'utc',
          'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
  };
  const plugin = `case i % ${plugins.length} ${plugins
    .map((name, at) => `when ${at} then '${name}'`)
    .join(' ')} end`;
  // A thousand jobs have one page of failures, so that ledgers of all sizes are comparable.
  const status = `case i % 20 when 0 then 'failed' when 1 then 'dead' when 2 then 'timed_out'
    when 3 then 'cancelled' else 'succeeded' end`;
  const submitted = `case i % 20 when 4 then 'cli' when 5 then 'webhook' else 'api' end`;
  const columns = `id, plugin, command, payload, status, submitted_by, actor, created_at, ready_at,
    started_at, completed_at, root_job_id, idempotency_key, last_error`;
  const done = id('8000');
  const waits = id('9000');
  return [
    `insert into job_queue (${columns}) ${numbers(finished)}
      select ${done}, ${plugin}, case when i % 7 = 0 then 'poll' else 'handle' end, '{"n":1}',
        ${status}, ${submitted}, 'bench', t, t, t, t, ${done}, ${done},
        case when i % 20 < 4 then 'connection refused' end
      from (select i, ${ago(finished)} as t from n) n`,
    `insert into job_log (id, job_id, plugin, command, status, cause, result, attempt, submitted_by,
        created_at, started_at, completed_at, queue_ms, run_ms) ${numbers(finished)}
      select ${done} || '-1', ${done}, ${plugin}, case when i % 7 = 0 then 'poll' else 'handle' end,
        case when i % 20 < 3 then 'failed' else 'succeeded' end, 'ok', '{"status":"ok"}', 1,
        ${submitted}, t, t, t, 3, 20 from (select i, ${ago(finished)} as t from n) n`,
    `insert into signals (id, type, source, data, correlation_id, occurred_at, inserted_at, job_id,
        job_attempt, event_index) ${numbers(Math.ceil(finished / 2))}
      select ${id('a000')}, 'bench.' || (i % 10), 'plugin:' || ${plugin}, '{}', ${done}, t, t, ${done},
        1, 0 from (select i, ${ago(Math.ceil(finished / 2))} as t from n) n where i % 20 > 3`,
    `insert into job_queue (id, plugin, command, payload, status, submitted_by, actor, created_at,
        ready_at, root_job_id, idempotency_key) ${numbers(queued)}
      select ${waits}, '${plugins[0]}', 'handle', '{"n":1}', 'queued', 'api', 'bench', t, t, ${waits},
        ${waits} from (select i, ${ago(queued)} as t from n) n`,
  ];
}
