import type { Dialect, Row, Session, TableName, Transaction } from './dialect.ts';
import type { MetaKey } from './meta.ts';
import type { PrunableKind, PruneRequest } from '../job/types.ts';
import { deleteSealedPayloads } from '../access/credential.sql.ts';
import { int, text } from './row.ts';

/** Deletes a bounded number of rows that are past their retention. Returns how many. */
export async function pruneRows(tx: Transaction, request: PruneRequest): Promise<number> {
  const { what } = request;
  if (what === 'runs') return await pruneRuns(tx, request);
  const { dialect } = tx;
  const { table, key, returns, select } = pruneRules[what];
  const deleted = await tx.run(
    `delete from ${dialect.table(table)} where ${key} in (${select(dialect, dialect.skipLocked)})
      returning ${returns}`,
    [-request.olderThanMs, request.limit],
  );
  if (what === 'attempts' && deleted.length > 0) await recordPrunedTo(tx, deleted);
  if (what === 'signals') deleteSealedPayloads(tx, deleted);
  return deleted.length;
}

/** Counts the rows that a prune would delete, up to the limit. */
export async function countPrunable(
  session: Session,
  { what, olderThanMs, limit }: PruneRequest,
): Promise<number> {
  const { dialect } = session;
  const old = what === 'runs' ? selectOldRuns(dialect) : pruneRules[what].select(dialect, '');
  const [row] = await session.run(`select count(*) as n from (${old}) old`, [-olderThanMs, limit]);
  return int(row ?? {}, 'n');
}

/** Records up to when attempts were pruned, so that a check can tell pruned rows from lost ones. */
async function recordPrunedTo(tx: Transaction, deleted: readonly Row[]): Promise<void> {
  const last = deleted.map((row) => text(row, 'completed_at')).reduce((a, b) => (a > b ? a : b));
  const key: MetaKey = 'attempts_pruned_to';
  await tx.run(
    `insert into ${tx.dialect.table('ledger_meta')} as m (key, value) values (?, ?)
      on conflict (key) do update set value = excluded.value where m.value < excluded.value`,
    [key, last],
  );
}

/** The way in which one kind of rows is pruned. */
interface PruneRules {
  readonly table: TableName;
  /** The columns of the primary key. */
  readonly key: string;
  readonly returns: string;
  /**
   * Selects the keys of rows that are past their retention. Its parameters are the negative age in
   * milliseconds and the number of rows. Rows that can change are locked when they are selected, so
   * that a row that was renewed isn't deleted.
   */
  readonly select: (d: Dialect, lock: string) => string;
}

const pruneRules: Readonly<Record<Exclude<PrunableKind, 'runs'>, PruneRules>> = {
  // An interval counts from the completion of its last job, so that job stays until the next one.
  // Runs take their baggage from their jobs, and can wait long or be revived.
  jobs: {
    table: 'job_queue',
    key: 'seq',
    returns: 'seq',
    select: (d) => `select j.seq from ${d.table('job_queue')} j
      where j.completed_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('schedules')} s where s.plugin = j.plugin
          and s.schedule_id = j.schedule_id and s.last_job_id = j.id and s.mode = 'every'
          and s.status <> 'retired')
        and not exists (select 1 from ${d.table('pipeline_runs')} r where r.id = j.run_id)
      order by j.completed_at limit ?`,
  },
  attempts: {
    table: 'job_log',
    key: 'id',
    returns: 'completed_at',
    select: (d) => `select l.id from ${d.table('job_log')} l
      where l.completed_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('job_queue')} j where j.id = l.job_id
          and j.completed_at is null)
      order by l.completed_at limit ?`,
  },
  // A signal stays as long as a job or run that it caused is open, however old it is.
  signals: {
    table: 'signals',
    key: 'seq',
    returns: 'id',
    select: (
      d,
    ) => `with cut as (select ${d.nowPlus('?')} as at) select s.seq from ${d.table('signals')} s
        where s.inserted_at <= (select at from cut) and s.occurred_at <= (select at from cut)
          and not exists (select 1 from ${d.table('job_queue')} j where j.source_event_id = s.id
            and j.completed_at is null)
          and not exists (select 1 from ${d.table('pipeline_runs')} r
            where r.source_event_id = s.id and r.completed_at is null)
        order by s.inserted_at limit ?`,
  },
  // The latest fact of a plugin is its memory, not its history.
  facts: {
    table: 'plugin_facts',
    key: 'seq',
    returns: 'seq',
    select: (d) => `select f.seq from ${d.table('plugin_facts')} f
      where f.created_at <= (select ${d.nowPlus('?')})
        and exists (select 1 from ${d.table('plugin_facts')} n
          where n.plugin_name = f.plugin_name and n.seq > f.seq)
      order by f.created_at limit ?`,
  },
  contexts: {
    table: 'event_context',
    key: 'id',
    returns: 'id',
    select: (d) => `select c.id from ${d.table('event_context')} c
      where c.created_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('job_queue')} j where j.event_context_id = c.id)
        and not exists (select 1 from ${d.table('pipeline_runs')} r
          where r.event_context_id = c.id)
      order by c.created_at limit ?`,
  },
  // Processes update `last_used_at` of the snapshot that they use. Its jobs are pruned before it.
  snapshots: {
    table: 'config_snapshots',
    key: 'id',
    returns: 'id',
    select: (d) => `select s.id from ${d.table('config_snapshots')} s
      where s.last_used_at <= (select ${d.nowPlus('?')})
      order by s.last_used_at limit ?`,
  },
  // The latest configuration of a plugin is the one in use.
  health: {
    table: 'plugin_health',
    key: '(plugin_name, kind, fingerprint)',
    returns: 'plugin_name',
    select: (d) => `select h.plugin_name, h.kind, h.fingerprint from ${d.table('plugin_health')} h
        where h.seen_at <= (select ${d.nowPlus('?')}) and exists (
          select 1 from ${d.table('plugin_health')} n where n.plugin_name = h.plugin_name
            and n.kind = h.kind and n.seen_at > h.seen_at)
        order by h.seen_at limit ?`,
  },
  dedupe: {
    table: 'job_dedupe',
    key: '(dedupe_key, plugin, command)',
    returns: 'dedupe_key',
    select: (d, lock) => `select k.dedupe_key, k.plugin, k.command from ${d.table('job_dedupe')} k
        where k.blocks_until <= (select ${d.nowPlus('?')}) order by k.blocks_until limit ?
        ${lock}`,
  },
  transitions: {
    table: 'circuit_breaker_transitions',
    key: 'id',
    returns: 'id',
    select: (d) => `select id from ${d.table('circuit_breaker_transitions')}
      where created_at <= (select ${d.nowPlus('?')}) order by created_at limit ?`,
  },
  // Its jobs hold the slot numbers that a schedule of the same name would use again.
  schedules: {
    table: 'schedules',
    key: '(plugin, schedule_id)',
    returns: 'plugin',
    select: (d, lock) => `select s.plugin, s.schedule_id from ${d.table('schedules')} s
      where s.status = 'retired' and s.updated_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('job_queue')} j where j.plugin = s.plugin
          and j.schedule_id = s.schedule_id)
      order by s.updated_at limit ? ${lock}`,
  },
  // Processes update `last_used_at` of the definitions that they use.
  definitions: {
    table: 'pipeline_definitions',
    key: 'hash',
    returns: 'hash',
    select: (d) => `select p.hash from ${d.table('pipeline_definitions')} p
      where p.last_used_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('pipeline_runs')} r
          where r.definition_hash = p.hash)
      order by p.last_used_at limit ?`,
  },
  // As long as its signal exists, a repeated delivery must be recognized.
  deliveries: {
    table: 'webhook_deliveries',
    key: 'seq',
    returns: 'seq',
    select: (d) => `select w.seq from ${d.table('webhook_deliveries')} w
      where w.received_at <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('signals')} s where s.id = w.signal_id)
      order by w.received_at limit ?`,
  },
  incidents: {
    table: 'incidents',
    key: 'seq',
    returns: 'seq',
    select: (d) => `select i.seq from ${d.table('incidents')} i
      where i.closed_at <= (select ${d.nowPlus('?')}) and i.closed_at is not null
      order by i.closed_at limit ?`,
  },
  directives: {
    table: 'directives',
    key: 'seq',
    returns: 'seq',
    select: (d) => `select seq from ${d.table('directives')}
      where completed_at <= (select ${d.nowPlus('?')}) order by completed_at limit ?`,
  },
  keys: {
    table: 'idempotency_keys',
    key: '(actor, route, key)',
    returns: 'key',
    select: (d) => `select k.actor, k.route, k.key from ${d.table('idempotency_keys')} k
      where k.created_at <= (select ${d.nowPlus('?')}) order by k.created_at limit ?`,
  },
  tokens: {
    table: 'api_tokens',
    key: 'id',
    returns: 'id',
    // Tokens that created others stay: approvals follow the lineage. Names stay in `token_names`.
    select: (d) => `select t.id from ${d.table('api_tokens')} t
      where coalesce(t.revoked_at, t.expires_at) <= (select ${d.nowPlus('?')})
        and not exists (select 1 from ${d.table('api_tokens')} c
          where c.created_by = 'token:' || t.name)
      order by coalesce(t.revoked_at, t.expires_at) limit ?`,
  },
};

/** The most runs that one step prunes. */
const RUNS_AT_ONCE = 10;

const runTables = ['run_steps', 'run_branches', 'run_advancements', 'run_payloads'] as const;

/**
 * Deletes ended runs with their rows in other tables. A wide run takes several steps. Its own row is
 * deleted last, because the other rows are found through it.
 */
async function pruneRuns(tx: Transaction, { olderThanMs, limit }: PruneRequest): Promise<number> {
  const { dialect } = tx;
  const runs = dialect.table('pipeline_runs');
  const old = await tx.run(`${selectOldRuns(dialect)} ${dialect.skipLocked}`, [
    -olderThanMs,
    RUNS_AT_ONCE,
  ]);
  let deleted = 0;
  for (const row of old) {
    const id = text(row, 'id');
    for (const table of runTables) {
      if (deleted < limit) deleted += await pruneRunRows(tx, table, id, limit - deleted);
    }
    if (deleted >= limit) break;
    await tx.run(`delete from ${runs} where id = ?`, [id]);
    deleted += 1;
  }
  // For the caller, a number below the limit means that no more runs are left.
  return old.length === RUNS_AT_ONCE ? limit : Math.min(deleted, limit);
}

/** Its parameters are the negative age in milliseconds and the number of runs. */
function selectOldRuns(dialect: Dialect): string {
  return `select id from ${dialect.table('pipeline_runs')} where completed_at is not null
    and completed_at <= (select ${dialect.nowPlus('?')})
    and (held_until is null or held_until <= (select ${dialect.now}))
    order by completed_at limit ?`;
}

async function pruneRunRows(
  tx: Transaction,
  name: (typeof runTables)[number],
  runId: string,
  limit: number,
): Promise<number> {
  const table = tx.dialect.table(name);
  // The ids of branches start with the id of their run, so the range uses their primary key.
  const isNear = name === 'run_branches' ? 'id >= ? and id < ? and' : '';
  const values = name === 'run_branches' ? [runId, `${runId}~`, runId] : [runId];
  const isRow = name === 'run_steps' ? '(run_id, id) in (select run_id, id' : 'id in (select id';
  const rows = await tx.run(
    `delete from ${table} where ${isRow} from ${table} where ${isNear} run_id = ? limit ?) returning 1 as one`,
    [...values, limit],
  );
  return rows.length;
}
