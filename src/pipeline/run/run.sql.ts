import { limits } from '../../base/limits.ts';
import { defineRows, type Session, type Transaction } from '../../ledger/dialect.ts';
import { textOrNull } from '../../ledger/row.ts';
import { rangeAfter, readWalk, type ListPage, type WalkStream } from '../../ledger/walk.ts';
import { formatOrder, WhereClause } from '../../ledger/where.ts';
import type { Signal } from '../../signal/signal.ts';
import { toSignal } from '../../signal/signal.sql.ts';
import type { Graph } from '../language/graph.ts';
import { isWaiting } from './load-run.sql.ts';
import { stepTable, runTable, type Step, type Run, type RunStatus } from './run.ts';
import type { RunFilter, RunPageFilter, StepJob } from './types.ts';
import { parseSignalNote } from './walk.ts';

export async function listRuns(session: Session, filter: RunFilter): Promise<Run[]> {
  const where = new WhereClause().equals({
    pipeline: filter.pipeline,
    root_job_id: filter.rootJobId,
    source_event_id: filter.sourceEventId,
    revived_from: filter.revivedFrom,
  });
  if (filter.status !== undefined) {
    where.and(`status in (${filter.status.map(() => '?').join(', ')})`, ...filter.status);
  }
  if (filter.awaitingApproval === true) {
    const waiting = `select 1 from ${session.dialect.table('run_steps')} s
      where s.run_id = pipeline_runs.id and ${awaitsApproval}`;
    where.and(`status = 'running' and completed_at is null and exists (${waiting})`);
  }
  if (filter.idPrefix !== undefined) {
    where.and('id >= ? and id < ?', filter.idPrefix, `${filter.idPrefix}~`);
  }
  if (filter.concurrencyKey !== undefined) {
    const isRunning = `status = 'running' and completed_at is null and due_at is null`;
    where.and(`concurrency_key = ? and ${isRunning}`, filter.concurrencyKey);
  }
  if (filter.beforeSeq !== undefined) where.and('seq < ?', filter.beforeSeq);
  const rows = await session.run(
    `select * from ${session.dialect.table('pipeline_runs')} where ${where.text}
      ${formatOrder(filter)} limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map((row) => runTable.decode(row));
}

export async function listWaitedSignals(session: Session, runId: string): Promise<string[]> {
  const rows = await session.run(
    `select note from ${session.dialect.table('run_steps')} where run_id = ? and kind = 'wait'`,
    [runId],
  );
  return rows.flatMap((row) => parseSignalNote(textOrNull(row, 'note')) ?? []);
}

export const awaitsApproval = `s.${isWaiting} and s.kind = 'approve'`;

/** Lists the first step of each run that waits for an approval. */
export async function listApprovalSteps(
  session: Session,
  runIds: readonly string[],
): Promise<Step[]> {
  const rows = await session.each(
    selectApprovalStep,
    runIds.map((run_id) => ({ run_id })),
  );
  return rows.map((row) => stepTable.decode(row));
}

const selectApprovalStep = defineRows({
  columns: { run_id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select s.* from ${d.table('run_steps')} s where s.run_id = ${r('run_id')} and ${awaitsApproval}
        order by s.branch_id limit 1`,
    )}`,
});

/** Lists the first waiting step of each run that does nothing but wait. */
export async function listWaitingSteps(
  session: Session,
  runIds: readonly string[],
): Promise<Step[]> {
  const rows = await session.each(
    selectWaitingStep,
    runIds.map((run_id) => ({ run_id })),
  );
  return rows.map((row) => stepTable.decode(row));
}

/** Only this many branches of a run are checked, so that a list stays cheap. */
const PAUSED_BRANCHES_MAX = 200;

const selectWaitingStep = defineRows({
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

/** Stores the definitions in use, and updates when they were used last. */
export async function storeDefinitions(tx: Transaction, graphs: readonly Graph[]): Promise<void> {
  const rows = graphs.map((graph) => ({
    hash: graph.hash,
    name: graph.name,
    graph: JSON.stringify(graph),
  }));
  // Lock order: hosts that start together write the same rows, so all of them sort by hash.
  await tx.each(
    upsertDefinition,
    rows.toSorted((a, b) => (a.hash < b.hash ? -1 : 1)),
  );
}

const upsertDefinition = defineRows({
  columns: { hash: 'text', name: 'text', graph: 'text' },
  sql: (r, d) => `insert into ${d.table('pipeline_definitions')}
    (hash, name, graph, created_at, last_used_at)
    select ${r('hash')}, ${r('name')}, ${r('graph')}, ${d.now}, ${d.now} ${r.from}
    where true on conflict (hash) do update set last_used_at = excluded.last_used_at`,
});

const openStatuses: ReadonlySet<RunStatus> = new Set(['queued', 'running']);

export async function readRunPage(session: Session, filter: RunPageFilter): Promise<ListPage<Run>> {
  const { pipeline, status, awaitingApproval, beforeSeq } = filter;
  const withApproval = (rest: WhereClause): WhereClause =>
    awaitingApproval === true
      ? rest.and(`status = 'running' and exists (select 1
          from ${session.dialect.table('run_steps')} s where s.run_id = w.id and ${awaitsApproval})`)
      : rest;
  const ways: WalkStream[][] = [];
  const states = awaitingApproval === true ? (['running'] as const) : status;
  if (states !== undefined) {
    ways.push(
      states.map((state): WalkStream => {
        // The exact conditions of the two partial indexes.
        const isOpen = openStatuses.has(state);
        const rest = withApproval(withStatus(new WhereClause().equals({ pipeline }), status));
        return {
          index: isOpen ? 'pipeline_runs_open' : 'pipeline_runs_ended',
          key: ['status', state],
          where: new WhereClause().and(
            isOpen ? 'completed_at is null' : 'completed_at is not null',
          ),
          rest,
        };
      }),
    );
  }
  if (pipeline !== undefined) {
    const rest = withApproval(withStatus(new WhereClause(), status));
    const index = 'pipeline_runs_pipeline';
    ways.push([{ index, key: ['pipeline', pipeline], where: new WhereClause(), rest }]);
  }
  if (ways.length === 0)
    ways.push([{ index: undefined, where: new WhereClause(), rest: new WhereClause() }]);
  return readWalk(session, {
    table: session.dialect.table('pipeline_runs'),
    columns: ['id', 'pipeline', 'status'],
    ways,
    order: 'newest',
    range: rangeAfter({}, beforeSeq, 'newest'),
    limit: filter.limit,
    visitMax: filter.visitMax ?? limits.listVisitMax,
    map: runTable.decode,
  });
}

function withStatus(rest: WhereClause, status: readonly RunStatus[] | undefined): WhereClause {
  if (status === undefined) return rest;
  return rest.and(`status in (${status.map(() => '?').join(', ')})`, ...status);
}

/**
 * Finds the signal whose payload a step continues with. For the first step, it is the signal that
 * started the run. Otherwise it is the event of the previous step: the only one, or the one for which
 * the branch was started.
 */
export async function findStepSignal(
  session: Session,
  { idempotencyKey, ...position }: StepJob,
): Promise<Signal | undefined> {
  let { parentJobId } = position;
  for (let steps = 0; steps <= limits.revivalsFollowedMax; steps += 1) {
    const signal = await findSignal(session, { ...position, parentJobId });
    if (signal !== undefined || parentJobId === null) return signal;
    // The parent of a revived step's job is the job of the same step that failed.
    const [earlier] = await session.run(
      `select parent_job_id from ${session.dialect.table('job_queue')}
        where id = ? and idempotency_key = ?`,
      [parentJobId, idempotencyKey],
    );
    if (earlier === undefined) return undefined;
    parentJobId = textOrNull(earlier, 'parent_job_id');
  }
  return undefined;
}

async function findSignal(
  session: Session,
  { runId, branchId, parentJobId }: Omit<StepJob, 'idempotencyKey'>,
): Promise<Signal | undefined> {
  const { dialect } = session;
  const [runs, branches, signals] = [
    dialect.table('pipeline_runs'),
    dialect.table('run_branches'),
    dialect.table('signals'),
  ];
  // A step with no task before it in its run has the parent of the run as its own.
  const isFirst = `r.id = ? and coalesce(r.parent_job_id, '') = ?`;
  const indexInBlock = `select b.idx from ${branches} b join ${branches} p on p.id = b.parent_id
    where b.id = ? and p.block = 'events' and p.job_id = ?`;
  const parent = parentJobId ?? '';
  const [row] = await session.run(
    `select s.* from ${signals} s where s.id = coalesce(
      (select r.source_event_id from ${runs} r where ${isFirst}),
      (select e.id from ${signals} e
        where e.job_id = ? and e.event_index = coalesce((${indexInBlock}), 0)
          and not exists (select 1 from ${runs} r where ${isFirst})
          and (exists (${indexInBlock}) or not exists (select 1 from ${signals} o
            where o.job_id = ? and o.event_index = 1))))`,
    [runId, parent, parent, branchId, parent, runId, parent, branchId, parent, parent],
  );
  return row === undefined ? undefined : toSignal(row);
}
