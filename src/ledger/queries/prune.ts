import type { Dialect, Row, Transaction } from '../dialect.ts';
import type { MetaKey, Prunable, PruneRequest } from '../ledger.ts';
import { text } from './row.ts';
import { pruneRuns } from './run-prune.ts';

/** Deletes a bounded number of rows that are past their time; says how many went. */
export async function prune(tx: Transaction, request: PruneRequest): Promise<number> {
  const { what } = request;
  if (what === 'runs') return await pruneRuns(tx, request);
  const gone = await tx.run(statements[what](tx.dialect), [-request.olderThanMs, request.limit]);
  if (what === 'attempts' && gone.length > 0) await notePruned(tx, gone);
  return gone.length;
}

/** How far the history is gone, so that a check can tell what was pruned from what was lost. */
async function notePruned(tx: Transaction, gone: readonly Row[]): Promise<void> {
  const last = gone.map((row) => text(row, 'completed_at')).reduce((a, b) => (a > b ? a : b));
  const key: MetaKey = 'attempts_pruned_to';
  await tx.run(
    `insert into ${tx.dialect.table('ledger_meta')} as m (key, value) values (?, ?)
      on conflict (key) do update set value = excluded.value where m.value < excluded.value`,
    [key, last],
  );
}

/**
 * Each takes the age in (negative) milliseconds and the number of rows. Rows that may change are
 * locked as they are chosen, so that one that is given a new life meanwhile is not deleted.
 */
const statements: Readonly<Record<Exclude<Prunable, 'runs'>, (d: Dialect) => string>> = {
  // An interval counts from the completion of its last job, so that one stays until the next; and
  // a run, which may wait for long or be revived, has its baggage from its jobs.
  jobs: (d) => `delete from ${d.table('job_queue')} where seq in (
    select j.seq from ${d.table('job_queue')} j
      where j.completed_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('schedules')} s where s.plugin = j.plugin
          and s.schedule_id = j.schedule_id and s.last_job_id = j.id and s.mode = 'every'
          and s.status <> 'retired')
        and not exists (select 1 from ${d.table('pipeline_runs')} r where r.id = j.run_id)
      order by j.completed_at limit ?) returning seq`,
  attempts: (d) => `delete from ${d.table('job_log')} where id in (
    select l.id from ${d.table('job_log')} l
      where l.completed_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('job_queue')} j where j.id = l.job_id
          and j.completed_at is null)
      order by l.completed_at limit ?) returning completed_at`,
  // A signal stays as long as a job or run that it caused is open, however old it is.
  signals: (d) => `with cut as (select ${d.nowPlus('?')} as at)
    delete from ${d.table('signals')} where seq in (
      select s.seq from ${d.table('signals')} s
        where s.inserted_at <= (select at from cut) and s.occurred_at <= (select at from cut)
          and not exists (select 1 from ${d.table('job_queue')} j where j.source_event_id = s.id
            and j.completed_at is null)
          and not exists (select 1 from ${d.table('pipeline_runs')} r
            where r.source_event_id = s.id and r.completed_at is null)
        order by s.inserted_at limit ?) returning seq`,
  // The latest fact of a plugin is its memory, not its history.
  facts: (d) => `delete from ${d.table('plugin_facts')} where seq in (
    select f.seq from ${d.table('plugin_facts')} f
      where f.created_at <= (select ${d.nowPlus('?')})
        and exists (select 1 from ${d.table('plugin_facts')} n
          where n.plugin_name = f.plugin_name and n.seq > f.seq)
      order by f.created_at limit ?) returning seq`,
  contexts: (d) => `delete from ${d.table('event_context')} where id in (
    select c.id from ${d.table('event_context')} c
      where c.created_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('job_queue')} j where j.event_context_id = c.id)
        and not exists (select 1 from ${d.table('pipeline_runs')} r
          where r.event_context_id = c.id)
      order by c.created_at limit ?) returning id`,
  // Whoever works with it says so; its jobs go before it does.
  snapshots: (d) => `delete from ${d.table('config_snapshots')} where id in (
    select s.id from ${d.table('config_snapshots')} s
      where s.last_used_at <= (select ${d.nowPlus('?')})
      order by s.last_used_at limit ?) returning id`,
  // The latest configuration of a plugin is the one in use.
  health: (d) => `delete from ${d.table('plugin_health')}
    where (plugin_name, kind, fingerprint) in (
      select h.plugin_name, h.kind, h.fingerprint from ${d.table('plugin_health')} h
        where h.seen_at <= (select ${d.nowPlus('?')}) and exists (
          select 1 from ${d.table('plugin_health')} n where n.plugin_name = h.plugin_name
            and n.kind = h.kind and n.seen_at > h.seen_at)
        order by h.seen_at limit ?)
    returning plugin_name`,
  dedupe: (d) => `delete from ${d.table('job_dedupe')}
    where (dedupe_key, plugin, command) in (
      select k.dedupe_key, k.plugin, k.command from ${d.table('job_dedupe')} k
        where k.blocks_until <= (select ${d.nowPlus('?')}) order by k.blocks_until limit ?
        ${d.skipLocked})
    returning dedupe_key`,
  transitions: (d) => `delete from ${d.table('circuit_breaker_transitions')} where id in (
    select id from ${d.table('circuit_breaker_transitions')}
      where created_at <= (select ${d.nowPlus('?')}) order by created_at limit ?) returning id`,
  // While its jobs are there, they hold the slots that one of its name would number from the start.
  schedules: (d) => `delete from ${d.table('schedules')} where (plugin, schedule_id) in (
    select s.plugin, s.schedule_id from ${d.table('schedules')} s
      where s.status = 'retired' and s.updated_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('job_queue')} j where j.plugin = s.plugin
          and j.schedule_id = s.schedule_id)
      order by s.updated_at limit ? ${d.skipLocked})
    returning plugin`,
  // Whoever works with it says so.
  definitions: (d) => `delete from ${d.table('pipeline_definitions')} where hash in (
    select p.hash from ${d.table('pipeline_definitions')} p
      where p.last_used_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('pipeline_runs')} r
          where r.definition_hash = p.hash)
      order by p.last_used_at limit ?) returning hash`,
  directives: (d) => `delete from ${d.table('directives')} where seq in (
    select seq from ${d.table('directives')}
      where completed_at <= (select ${d.nowPlus('?')}) order by completed_at limit ?) returning seq`,
  keys: (d) => `delete from ${d.table('idempotency_keys')} where (actor, route, key) in (
    select k.actor, k.route, k.key from ${d.table('idempotency_keys')} k
      where k.created_at <= (select ${d.nowPlus('?')}) order by k.created_at limit ?)
    returning key`,
  tokens: (d) => `delete from ${d.table('api_tokens')} where id in (
    select id from ${d.table('api_tokens')}
      where coalesce(revoked_at, expires_at) <= (select ${d.nowPlus('?')})
      order by coalesce(revoked_at, expires_at) limit ?) returning id`,
};
