import type { HaltReason } from '../pipeline/run/halt.ts';
import { defineRows, type Dialect, type Session, type TableName } from '../ledger/dialect.ts';
import type { DeadJob, FindingWindow, HaltedRun, OpenQuestion } from './types.ts';
import { RARE_STATUSES } from '../ledger/migrations/0014-lists.ts';
import { jobTable } from '../job/job.ts';
import { text, textOrNull } from '../ledger/row.ts';
import { awaitsApproval } from '../pipeline/run/run.sql.ts';

/** Word for word the condition of the index of rare states, so that the planner uses it. */
const isRare = `status in ${RARE_STATUSES}`;

const deadJobs = jobTable.pick(
  'id',
  'plugin',
  'command',
  'lastError',
  'attempt',
  'completedAt',
  'sourceEventId',
);

/** Lists dead jobs that weren't retried. Each plugin has its own limit, so that none hides another. */
export async function listDeadJobs(
  session: Session,
  { since, visitMax, groupsMax }: FindingWindow,
): Promise<DeadJob[]> {
  const jobs = session.dialect.table('job_queue');
  const plugins = await session.run(
    `with recursive hops(plugin) as (
        select min(plugin) from ${jobs} where ${isRare}
        union all
        select (select min(plugin) from ${jobs} where ${isRare} and plugin > hops.plugin)
          from hops where hops.plugin is not null
      ) select plugin from hops where plugin is not null limit ?`,
    [groupsMax],
  );
  const rows = await session.each(
    selectDead,
    plugins.map((row) => ({ wanted: text(row, 'plugin') })),
    [since, visitMax],
  );
  return rows.map(deadJobs.decode);
}

/**
 * Selects the dead jobs of a plugin by their index, newest first. PostgreSQL has no index hints, but
 * only that index can serve a comparison of all its columns in this order.
 */
function deadOf(d: Dialect, plugin: string): string {
  const jobs = d.table('job_queue');
  if (d.name === 'sqlite') {
    return `${jobs} j indexed by job_queue_rare_of
      where j.plugin = ${plugin} and j.status = 'dead' and j.${isRare} order by j.seq desc`;
  }
  return `${jobs} j where j.${isRare} and (j.plugin, j.status, j.seq) >= (${plugin}, 'dead', 0)
      and (j.plugin, j.status, j.seq) < (${plugin}, 'dead', ${Number.MAX_SAFE_INTEGER})
    order by j.plugin desc, j.status desc, j.seq desc`;
}

const selectDead = defineRows({
  columns: { wanted: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select v.* from (select ${deadJobs.columns('j')}, j.run_id, j.seq
          from ${deadOf(d, r('wanted'))} limit ${r.common(1, 'int')}) v
        where v.run_id is null and v.completed_at >= ${r.common(0)}
          and not exists (select 1 from ${d.table('job_queue')} t where t.retry_of = v.id)`,
    )} order by q.seq desc`,
});

/** Lists halted runs that weren't revived, newest first. */
export async function listHaltedRuns(
  session: Session,
  { since, visitMax }: FindingWindow,
): Promise<HaltedRun[]> {
  const runs = session.dialect.table('pipeline_runs');
  const rows = await session.run(
    `select v.* from (select id, pipeline, halt_reason, halt_message, halted_at_step, completed_at,
          seq
        from ${runs} where status = 'halted' and completed_at is not null
        order by seq desc limit ?) v
      where v.completed_at >= ?
        and not exists (select 1 from ${runs} t where t.revived_from = v.id)
      order by v.seq desc`,
    [visitMax, since],
  );
  return rows.map((row) => ({
    id: text(row, 'id'),
    pipeline: text(row, 'pipeline'),
    haltReason: textOrNull(row, 'halt_reason') as HaltReason | null,
    haltMessage: textOrNull(row, 'halt_message'),
    haltedAtStep: textOrNull(row, 'halted_at_step'),
    completedAt: textOrNull(row, 'completed_at'),
  }));
}

/** Lists steps of running runs that wait for an approval. */
export async function listOpenQuestions(session: Session, limit: number): Promise<OpenQuestion[]> {
  const { dialect: d } = session;
  const rows = await session.run(
    `select s.*, p.pipeline from (select s.id, s.run_id, s.node, s.note, s.started_at, s.due_at
          from ${d.table('run_steps')} s where ${awaitsApproval}
          order by s.run_id, s.branch_id limit ?) s
      join ${d.table('pipeline_runs')} p on p.id = s.run_id
      where p.status = 'running' order by s.run_id, s.id`,
    [limit],
  );
  return rows.map((row) => ({
    id: text(row, 'id'),
    runId: text(row, 'run_id'),
    pipeline: text(row, 'pipeline'),
    node: text(row, 'node'),
    note: textOrNull(row, 'note'),
    startedAt: text(row, 'started_at'),
    dueAt: textOrNull(row, 'due_at'),
  }));
}

/** Lists the keys that sealed something. It skips from key to key in the indexes. */
export async function listSealKeyIds(session: Session): Promise<string[]> {
  const found = new Set<string>();
  for (const table of sealing) {
    const name = session.dialect.table(table);
    const rows = await session.run(
      `with recursive hops(key_id) as (
          select min(key_id) from ${name} where key_id is not null
          union all
          select (select min(key_id) from ${name} where key_id is not null and key_id > hops.key_id)
            from hops where hops.key_id is not null
        ) select key_id from hops where key_id is not null`,
    );
    for (const row of rows) found.add(text(row, 'key_id'));
  }
  return [...found].toSorted();
}

const sealing: readonly TableName[] = ['credentials', 'sealed_payloads', 'webhooks'];
