/** Fills a ledger with so many rows that a full scan is visible in a plan. */
import type { Bench } from './bench.ts';

/** Fills every growing table: mostly history, a long queue, some delayed and a few running jobs. */
export async function fillTables({ kind, sql }: Bench, rows: number): Promise<void> {
  const numbers =
    kind === 'sqlite'
      ? `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${rows})`
      : `with n(i) as (select generate_series(1, ${rows}))`;
  const at = (ms: string): string =>
    kind === 'sqlite'
      ? `strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (-(${ms}) / 1000.0) || ' seconds')`
      : `to_char((clock_timestamp() - (${ms}) * interval '1 millisecond') at time zone 'utc',
          'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
  const old = at(`1000 * (${rows} - i)`);
  // The mix: 70 % of the jobs have ended, 25 % are queued, 4 % are delayed and 1 % runs.
  const status = `case when i % 100 < 70 then 'succeeded' when i % 100 < 99 then 'queued'
    else 'running' end`;
  // Most queued rows have one dependency key; the others have their own.
  const inLine = `case when i % 100 between 75 and 94 then 'crowded' when i % 1000 = 70 then 'key ' || i end`;
  const running = (value: string): string => `case when i % 100 = 99 then ${value} end`;
  await sql(`insert into job_queue (id, plugin, command, status, submitted_by, actor, created_at,
      ready_at, completed_at, next_retry_at, root_job_id, idempotency_key, claim_token, claimed_by,
      claim_expires_at, event_context_id, source_event_id, dedupe_key, dependency_key)
    ${numbers} select 'job ' || i, 'plugin ' || (i % 20), 'handle', ${status}, 'api', 'api', ${old},
      ${old}, case when i % 100 < 70 then ${old} end,
      case when i % 100 between 95 and 98 then ${at(`i - ${rows / 2}`)} end, 'job ' || i, 'job ' || i,
      ${running(`'token ' || i`)}, ${running(`'process ' || (i % 4)`)}, ${running(at('-60000'))},
      'context ' || i, 'signal ' || i, case when i % 10 = 9 then 'key ' || i end,
      ${inLine} from n where true`);
  await sql(`insert into job_log (id, job_id, plugin, command, status, cause, attempt, submitted_by,
      created_at, completed_at, claim_token)
    ${numbers} select 'job ' || i || '-1', 'job ' || i, 'plugin', 'handle', 'succeeded', 'ok', 1,
      'api', ${old}, ${old}, 'token' from n where i % 100 < 70`);
  await sql(`insert into signals (id, type, source, data, correlation_id, occurred_at, inserted_at)
    ${numbers} select 'signal ' || i, 'a.b', 'api', '{}', 'c', ${old}, ${old} from n where true`);
  await sql(`insert into plugin_facts (seq, plugin_name, fact_type, fact_json, created_at)
    ${numbers} select i, 'plugin ' || (i % 20), 'f', '{}', ${old} from n where true`);
  await sql(`insert into event_context (id, accumulated_json, created_at)
    ${numbers} select 'context ' || i, '{}', ${old} from n where true`);
  await sql(`insert into job_dedupe (dedupe_key, plugin, command, job_id, blocks_until)
    ${numbers} select 'key ' || i, 'plugin ' || (i % 20), 'handle', 'job ' || i,
      case when i % 100 < 70 then ${at(`${rows / 2} - i`)} end from n where i % 10 = 9`);
  await sql(`insert into directives (id, type, target, params, actor, scope, correlation_id,
      idempotency_key, status, plan, attempt, max_attempts, process_id, signal_id, requested_at,
      started_at, completed_at)
    ${numbers} select 'directive ' || i, 'type ' || (i % 20), 'target ' || (i % 1000), '{}', 'api',
      's', 'directive ' || i, 'key ' || i, 'completed', '[]', 1, 1, 'p', 'signal ' || i, ${old},
      ${old}, ${old}
      from n where true`);
  await sql(`insert into idempotency_keys (actor, route, key, body_digest, subject_id, created_at)
    ${numbers} select 'api', 'POST /a', 'key ' || i, 'd', 'job ' || i, ${old} from n where true`);
  await sql(`insert into api_tokens (id, name, digest, scopes, role, created_by, created_at,
      revoked_at)
    ${numbers} select 'token ' || i, 'name', 'digest ' || i, '[]', 'owner', 'api', ${old}, ${old}
      from n where true`);
  await sql(`insert into config_snapshots (id, hash, config, plugins, reason, generation, process_id,
      created_at, last_used_at)
    ${numbers} select 'snapshot ' || i, 'h', '{}', '{}', 'start', 1, 'p', ${old}, ${old}
      from n where true`);
  await sql(`insert into plugin_health (plugin_name, kind, fingerprint, status, job_id, updated_at,
      seen_at)
    ${numbers} select 'plugin ' || (i % 20), 'init', 'print ' || i, 'healthy', 'job ' || i, ${old},
      ${old} from n where true`);
  await sql(`insert into schedules (plugin, schedule_id, command, mode, timing, timezone, generation,
      status, next_slot_at, next_due_at, first_seen_at, last_job_id, updated_at)
    ${numbers} select 'plugin ' || (i % 20), 'schedule ' || i, 'poll', 'every', '1h', 'UTC', 'g',
      'active', ${old}, ${old}, ${old}, 'job ' || i, ${old} from n where true`);
  await sql(`insert into circuit_breaker_transitions (id, plugin, command, from_state, to_state,
      reason, created_at)
    ${numbers} select 'transition ' || i, 'plugin ' || (i % 20), 'poll', 'closed', 'open',
      'failure_threshold', ${old} from n where true`);
  await sql(`insert into tenants (slug, title, status, due_at, created_by, created_at, updated_at)
    ${numbers} select 'tenant' || i, 't', 'active', ${old}, 'api', ${old}, ${old}
      from n where true`);
  await sql(`insert into tenant_keys (kind, key, slug, created_at)
    ${numbers} select 'token', 'digest ' || i, 'tenant' || i, ${old} from n where true`);
  await fillRuns(sql, numbers, old);
  await sql(`insert into processes (id, host, pid, version, slots, spawner, plugins, started_at,
      last_heartbeat_at)
    ${numbers} select 'process ' || (i - 1), 'host', 1, '1', 1, 'node', '[]', ${at('0')}, ${at('0')}
      from n where i <= 4`);
  await sql('update storage_sequences set value = ?', [rows]);
  // The program never collects statistics on SQLite, so neither does this test.
  if (kind === 'postgres') await sql('analyze');
}

/** Inserts ended runs with a branch and a step each; one of a hundred branches waits. */
async function fillRuns(sql: Bench['sql'], numbers: string, old: string): Promise<void> {
  const open = (value: string): string => `case when i % 100 = 99 then ${value} end`;
  const ended = (value: string): string => `case when i % 100 <> 99 then ${value} end`;
  await sql(`insert into pipeline_definitions (hash, name, graph, created_at, last_used_at)
    ${numbers} select 'hash ' || i, 'flow', '{"nodes":{}}', ${old}, ${old} from n where true`);
  await sql(`insert into pipeline_runs (id, pipeline, definition_hash, status, payload, submitted_by,
      actor, source_event_id, first_job_id, root_job_id, lineage, created_at, completed_at)
    ${numbers} select 'run ' || i, 'flow ' || (i % 20), 'hash ' || i,
      case when i % 100 = 99 then 'running' else 'succeeded' end, '{}', 'api', 'api', 'signal ' || i,
      'job ' || i, 'job ' || i, 'run ' || i, ${old}, ${ended(old)} from n where true`);
  await sql(`insert into run_branches (id, run_id, path, node, status, payload, due_at, deadline_at,
      waits_for, created_at, completed_at)
    ${numbers} select 'run ' || i, 'run ' || i, '0', 'a',
      case when i % 100 = 99 then 'waiting' else 'succeeded' end, '{}', ${open(`'2100-01-01'`)},
      ${open(`'2100-01-01'`)}, ${open(`'type ' || i`)}, ${old}, ${ended(old)} from n where true`);
  await sql(`insert into run_steps (run_id, id, branch_id, node, kind, status, started_at,
      completed_at)
    ${numbers} select 'run ' || i, 'step ' || i, 'run ' || i, 'a', 'task', 'succeeded', ${old}, ${old}
      from n where true`);
}
