import { parseJson } from '../../base/parse-json.ts';
import type { Graph } from '../language/graph.ts';
import type { Run, Step } from './run.ts';
import { parseSignalNote } from './walk.ts';
import { defineRows, type Session, type Transaction } from '../../ledger/dialect.ts';
import type { Advancement, BranchFilter, RunFilter, StepFilter } from './types.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { toAdvancement, toBranch, toRun, toStep, type BranchRow } from './run-row.sql.ts';
import { orderOf, Where } from '../../ledger/where.ts';

export async function findRun(session: Session, id: string): Promise<Run | undefined> {
  const [row] = await session.run(
    `select * from ${session.dialect.table('pipeline_runs')} where id = ?`,
    [id],
  );
  return row === undefined ? undefined : toRun(row);
}

export async function listRuns(session: Session, filter: RunFilter): Promise<Run[]> {
  const where = new Where().equals({
    pipeline: filter.pipeline,
    root_job_id: filter.rootJobId,
    source_event_id: filter.sourceEventId,
    revived_from: filter.revivedFrom,
  });
  if (filter.status !== undefined) {
    where.and(`status in (${filter.status.map(() => '?').join(', ')})`, ...filter.status);
  }
  if (filter.awaitingApproval === true) {
    const asking = `select 1 from ${session.dialect.table('run_steps')} s
      where s.run_id = pipeline_runs.id and ${isAsking}`;
    where.and(`status = 'running' and completed_at is null and exists (${asking})`);
  }
  if (filter.idPrefix !== undefined) {
    where.and('id >= ? and id < ?', filter.idPrefix, `${filter.idPrefix}~`);
  }
  if (filter.concurrencyKey !== undefined) {
    const isUnderWay = `status = 'running' and completed_at is null and due_at is null`;
    where.and(`concurrency_key = ? and ${isUnderWay}`, filter.concurrencyKey);
  }
  if (filter.beforeSeq !== undefined) where.and('seq < ?', filter.beforeSeq);
  const rows = await session.run(
    `select * from ${session.dialect.table('pipeline_runs')} where ${where.text}
      ${orderOf(filter)} limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map(toRun);
}

/** In the order of ids: each branch before its own branches, and these in the order of the block. */
export async function listBranches(session: Session, filter: BranchFilter): Promise<BranchRow[]> {
  const { runId, parentId, status, afterId } = filter;
  const above = parentId ?? runId;
  const where = new Where().and('id >= ? and id < ?', above, `${above}~`);
  where.equals({ run_id: runId, parent_id: parentId, status });
  if (filter.open === true) where.and('completed_at is null');
  if (afterId !== undefined) where.and('id > ?', afterId);
  const rows = await session.run(
    `select * from ${session.dialect.table('run_branches')} where ${where.text}
      order by id limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map(toBranch);
}

export async function listSteps(session: Session, filter: StepFilter): Promise<Step[]> {
  const { runId, branchId, node, status, afterId } = filter;
  const where = new Where().equals({ run_id: runId, branch_id: branchId, node });
  // Of all steps few wait; in these very words, so that their index is used.
  if (status === 'waiting') where.and(isWaiting);
  else where.equals({ status });
  if (afterId !== undefined) where.and('id > ?', afterId);
  const rows = await session.run(
    `select * from ${session.dialect.table('run_steps')} where ${where.text} order by id limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map(toStep);
}

export async function listWaitedSignals(session: Session, runId: string): Promise<string[]> {
  const rows = await session.run(
    `select note from ${session.dialect.table('run_steps')} where run_id = ? and kind = 'wait'`,
    [runId],
  );
  return rows.flatMap((row) => parseSignalNote(textOrNull(row, 'note')) ?? []);
}

/** The condition of the index of waiting steps, word for word. */
const isWaiting = `status = 'waiting'`;

export const isAsking = `s.${isWaiting} and s.kind = 'approve'`;

export async function listQuestions(session: Session, runIds: readonly string[]): Promise<Step[]> {
  const rows = await session.each(
    selectQuestion,
    runIds.map((run_id) => ({ run_id })),
  );
  return rows.map(toStep);
}

const selectQuestion = defineRows({
  columns: { run_id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select s.* from ${d.table('run_steps')} s where s.run_id = ${r('run_id')} and ${isAsking}
        order by s.branch_id limit 1`,
    )}`,
});

export async function listPauses(session: Session, runIds: readonly string[]): Promise<Step[]> {
  const rows = await session.each(
    selectPause,
    runIds.map((run_id) => ({ run_id })),
  );
  return rows.map(toStep);
}

/** Of a wider run only this many branches are looked at, so that a list stays cheap. */
const PAUSED_BRANCHES_MAX = 200;

const selectPause = defineRows({
  columns: { run_id: 'text' },
  sql: (r, d) => {
    const newest = `select b.status from ${d.table('run_branches')} b
      where b.id >= ${r('run_id')} and b.id < ${r('run_id')} || '~'
      order by b.id desc limit ${PAUSED_BRANCHES_MAX}`;
    return `select q.* from ${r.lateral(
      `select s.* from ${d.table('run_steps')} s where s.run_id = ${r('run_id')} and s.${isWaiting}
        and not exists (select 1 from (${newest}) n where n.status in ('running', 'advancing'))
        order by s.branch_id limit 1`,
    )}`;
  },
});

export async function listAdvancements(
  session: Session,
  runId: string,
  limit: number,
): Promise<Advancement[]> {
  const rows = await session.run(
    `select * from ${session.dialect.table('run_advancements')} where run_id = ?
      order by id desc limit ?`,
    [runId, limit],
  );
  return rows.map(toAdvancement);
}

export async function rememberDefinitions(
  tx: Transaction,
  graphs: readonly Graph[],
): Promise<void> {
  const rows = graphs.map((graph) => ({
    hash: graph.hash,
    name: graph.name,
    graph: JSON.stringify(graph),
  }));
  // In one order for everybody: many hosts say the same when they start together.
  await tx.each(
    remember,
    rows.toSorted((a, b) => (a.hash < b.hash ? -1 : 1)),
  );
}

const remember = defineRows({
  columns: { hash: 'text', name: 'text', graph: 'text' },
  sql: (r, d) => `insert into ${d.table('pipeline_definitions')}
    (hash, name, graph, created_at, last_used_at)
    select ${r('hash')}, ${r('name')}, ${r('graph')}, ${d.now}, ${d.now} ${r.from}
    where true on conflict (hash) do update set last_used_at = excluded.last_used_at`,
});

export async function readGraph(session: Session, hash: string): Promise<Graph | undefined> {
  const [row] = await session.run(
    `select graph from ${session.dialect.table('pipeline_definitions')} where hash = ?`,
    [hash],
  );
  return row === undefined ? undefined : (parseJson(text(row, 'graph')) as Graph);
}
