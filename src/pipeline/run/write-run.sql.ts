import {
  defineRows,
  type Dialect,
  type Row,
  type RowsWriter,
  type Transaction,
} from '../../ledger/dialect.ts';
import type { RunRow, Due, BranchChanges, BranchDraft, StepDraft } from './changes.ts';
import type { RunDraft } from './types.ts';
import { text } from '../../ledger/row.ts';
import { insertContexts, insertPlainJobs } from '../../job/enqueue.sql.ts';
import { insertSignals } from '../../signal/signal.sql.ts';

/** Writes the changes so far. Later statements of the same transaction see them. */
export function flushChanges(tx: Transaction, changes: BranchChanges): void {
  insertContexts(tx, changes.contexts.splice(0));
  insertSignals(tx, changes.signals.splice(0));
  tx.send(
    insertPayloads,
    changes.payloads.splice(0).map(({ id, runId, payload }) => ({ id, run_id: runId, payload })),
  );
  const [plainStarted, started] = partition(drain(changes.started), isPlain);
  tx.send(insertPlain, plainStarted.map(toBranchRow));
  tx.send(insertBranches, started.map(toBranchRow));
  // Lock order: every transaction updates branches in the order of ids.
  const all = drain(changes.moved).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const [plainMoved, moved] = partition(all, (branch) => branch.wasPlain && isPlain(branch));
  tx.send(updatePlain, plainMoved.map(toBranchRow));
  tx.send(updateBranches, moved.map(toBranchRow));
  tx.send(insertSteps, changes.steps.splice(0).map(toStepRow));
  tx.send(closeSteps, changes.closedSteps.splice(0).map(toStepRow));
  insertPlainJobs(tx, changes.jobs.splice(0));
}

function drain(branches: Map<string, BranchDraft>): BranchDraft[] {
  const all = [...branches.values()];
  branches.clear();
  return all;
}

function partition<T>(all: readonly T[], isFirst: (item: T) => boolean): [T[], T[]] {
  return [all.filter((item) => isFirst(item)), all.filter((item) => !isFirst(item))];
}

/** Most branches only go from job to job and succeed, so a short statement writes few columns. */
function isPlain({ status, outcome }: BranchDraft): boolean {
  return (status === 'running' || status === 'succeeded') && outcome === null;
}

/** The columns that never change after the insert. */
const fixed = {
  run_id: 'text',
  parent_id: 'text',
  parent_moves: 'int',
  idx: 'int',
  label: 'text',
  path: 'text',
  stop: 'text',
} as const;

const plain = {
  node: 'text',
  status: 'text',
  payload: 'text',
  is_whole: 'int',
  event_context_id: 'text',
  job_id: 'text',
  moves: 'int',
  output: 'text',
  last_step_id: 'text',
} as const;

const changing = {
  ...plain,
  payload_ref: 'text',
  block: 'text',
  width: 'int',
  cursor: 'int',
  pending: 'int',
  halted: 'int',
  concurrency: 'int',
  outcome: 'text',
  waits_for: 'text',
  wake_from: 'int',
  claim_token: 'text',
  claimed_by: 'text',
  tries: 'int',
  crashes: 'int',
  halt_reason: 'text',
  halt_message: 'text',
} as const;

const dues = {
  due_text: 'text',
  due_ms: 'int',
  search_ms: 'int',
  keeps_deadline: 'int',
  is_pause: 'int',
} as const;

function dueOf(r: RowsWriter, d: Dialect): string {
  return `coalesce(${r('due_text')}, case when ${r('due_ms')} is not null
    then ${d.nowPlus(r('due_ms'))} end)`;
}

/** Returns the time of the next advancement: the end of the wait, or an earlier search for a signal. */
function nextDueOf(r: RowsWriter, d: Dialect, due: string): string {
  const search = d.nowPlus(r('search_ms'));
  return `case when ${r('search_ms')} is null then ${due}
    when ${due} <= ${search} then ${due} else ${search} end`;
}

function completedAtOf(r: RowsWriter, d: Dialect): string {
  return `case when ${r('status')} in ('succeeded', 'halted', 'cancelled') then ${d.now} end`;
}

const fixedNames = Object.keys(fixed);
const plainNames = Object.keys(plain);
const changingNames = Object.keys(changing);

const insertPlain = defineRows({
  columns: { id: 'text', ...fixed, ...plain },
  sql: (r, d) => `insert into ${d.table('run_branches')}
    (id, ${[...fixedNames, ...plainNames].join(', ')}, created_at, completed_at)
    select ${r('id')}, ${[...fixedNames, ...plainNames].map((name) => r(name)).join(', ')},
      ${d.now}, ${completedAtOf(r, d)} ${r.from}`,
});

const updatePlain = defineRows({
  columns: { id: 'text', ...plain },
  sql: (r, d) => `update ${d.table('run_branches')} set
      ${plainNames.map((name) => `${name} = ${r(name)}`).join(', ')}, completed_at = ${completedAtOf(r, d)}
    ${r.from}
    where run_branches.id = ${r('id')}`,
});

const insertBranches = defineRows({
  columns: { id: 'text', ...fixed, ...changing, ...dues },
  sql: (r, d) => `insert into ${d.table('run_branches')}
    (id, ${[...fixedNames, ...changingNames].join(', ')}, due_at, deadline_at, created_at,
      completed_at)
    select ${r('id')}, ${[...fixedNames, ...changingNames].map((name) => r(name)).join(', ')},
      ${nextDueOf(r, d, dueOf(r, d))},
      case when ${r('is_pause')} = 1 then ${dueOf(r, d)} end, ${d.now},
      ${completedAtOf(r, d)} ${r.from}`,
});

const updateBranches = defineRows({
  columns: { id: 'text', ...changing, ...dues },
  sql: (r, d) => `update ${d.table('run_branches')} set
      ${changingNames.map((name) => `${name} = ${r(name)}`).join(', ')},
      due_at = ${nextDueOf(
        r,
        d,
        `case when ${r('keeps_deadline')} = 1 then run_branches.deadline_at else ${dueOf(r, d)} end`,
      )},
      deadline_at = case when ${r('is_pause')} = 1 then ${dueOf(r, d)}
        when ${r('keeps_deadline')} = 1 then run_branches.deadline_at end,
      completed_at = ${completedAtOf(r, d)}
    ${r.from}
    where run_branches.id = ${r('id')}`,
});

function toBranchRow(branch: BranchDraft): Row {
  return {
    id: branch.id,
    run_id: branch.runId,
    parent_id: branch.parentId,
    parent_moves: branch.parentMoves,
    idx: branch.index,
    label: branch.label,
    path: branch.path,
    stop: branch.stop,
    node: branch.node,
    status: branch.status,
    payload: branch.payloadRef === null ? branch.payload : '{}',
    payload_ref: branch.payloadRef,
    is_whole: branch.isWhole ? 1 : 0,
    event_context_id: branch.eventContextId,
    job_id: branch.jobId,
    moves: branch.moves,
    block: branch.block,
    width: branch.width,
    cursor: branch.cursor,
    pending: branch.pending,
    halted: branch.halted,
    concurrency: branch.concurrency,
    output: branch.output,
    outcome: branch.outcome,
    waits_for: branch.waitsFor,
    wake_from: branch.wakeFrom,
    claim_token: branch.claimToken,
    claimed_by: branch.claimedBy,
    tries: branch.tries,
    crashes: branch.crashes,
    halt_reason: branch.haltReason,
    halt_message: branch.haltMessage,
    last_step_id: branch.lastStepId,
    ...toDueRow(branch.due),
    search_ms: branch.searchInMs ?? null,
    // After a search without a result, the branch waits until the deadline that was set before.
    keeps_deadline: branch.status === 'waiting' && branch.deadlineAt !== null ? 1 : 0,
    is_pause: branch.status === 'waiting' && branch.due !== undefined ? 1 : 0,
  };
}

function toDueRow(due: Due | undefined): Row {
  return {
    due_text: due !== undefined && 'at' in due ? due.at : null,
    due_ms: due !== undefined && 'inMs' in due ? due.inMs : null,
  };
}

const insertPayloads = defineRows({
  columns: { id: 'text', run_id: 'text', payload: 'text' },
  sql: (r, d) => `insert into ${d.table('run_payloads')} (id, run_id, payload)
    select ${r('id')}, ${r('run_id')}, ${r('payload')} ${r.from}
    where true on conflict (id) do update set payload = excluded.payload`,
});

const stepColumns = {
  id: 'text',
  run_id: 'text',
  branch_id: 'text',
  node: 'text',
  kind: 'text',
  status: 'text',
  job_id: 'text',
  output: 'text',
  error: 'text',
  note: 'text',
  next_node: 'text',
  started_at: 'text',
  due_text: 'text',
  due_ms: 'int',
} as const;

const insertSteps = defineRows({
  columns: stepColumns,
  sql: (r, d) => `insert into ${d.table('run_steps')}
    (id, run_id, branch_id, node, kind, status, job_id, output, error, note, next_node,
      started_at, due_at, completed_at)
    select ${r('id')}, ${r('run_id')}, ${r('branch_id')}, ${r('node')}, ${r('kind')},
      ${r('status')}, ${r('job_id')}, ${r('output')}, ${r('error')}, ${r('note')},
      ${r('next_node')}, coalesce(${r('started_at')}, ${d.now}), ${dueOf(r, d)},
      case when ${r('status')} <> 'waiting' then ${d.now} end ${r.from}`,
});

const closeSteps = defineRows({
  columns: stepColumns,
  sql: (r, d) => `update ${d.table('run_steps')} set
      status = ${r('status')}, output = ${r('output')}, error = ${r('error')},
      note = coalesce(${r('note')}, run_steps.note), next_node = ${r('next_node')},
      completed_at = ${d.now}
    ${r.from}
    where run_steps.run_id = ${r('run_id')} and run_steps.id = ${r('id')}
      and run_steps.status = 'waiting'`,
});

function toStepRow(step: StepDraft): Row {
  return {
    id: step.id,
    run_id: step.runId,
    branch_id: step.branchId,
    node: step.node,
    kind: step.kind,
    status: step.status,
    job_id: step.jobId,
    output: step.output,
    error: step.error,
    note: step.note,
    next_node: step.nextNode,
    started_at: step.startedAt ?? null,
    ...toDueRow(step.due),
  };
}

/** Inserts each run once, and one run per dedupe key. Returns the new ones. */
export async function insertRuns(
  tx: Transaction,
  drafts: readonly RunDraft[],
  /** The due times of runs that are not due yet. */
  dueAt: ReadonlyMap<string, string> = new Map(),
): Promise<RunDraft[]> {
  const listener = tx.ends?.listener ?? null;
  const rows = await tx.each(
    insertRun,
    drafts.map((draft) => toRunRow(draft, listener, dueAt.get(draft.id) ?? null)),
  );
  const isNew = new Set(rows.map((row) => text(row, 'id')));
  return drafts.filter(({ id }) => isNew.has(id));
}

/** Inserts the first branches of running runs for an advancer. */
export async function insertRoots(
  tx: Transaction,
  runs: readonly Pick<RunRow, 'id' | 'payload' | 'eventContextId'>[],
): Promise<void> {
  await tx.each(
    insertRoot,
    runs.map(({ id, payload, eventContextId }) => ({
      id,
      payload,
      event_context_id: eventContextId,
    })),
  );
}

const insertRun = defineRows({
  columns: {
    id: 'text',
    pipeline: 'text',
    definition_hash: 'text',
    status: 'text',
    payload: 'text',
    submitted_by: 'text',
    actor: 'text',
    source_event_id: 'text',
    parent_job_id: 'text',
    first_job_id: 'text',
    root_job_id: 'text',
    lineage: 'text',
    hops: 'int',
    runtime_caused: 'int',
    event_context_id: 'text',
    concurrency_key: 'text',
    concurrency_limit: 'int',
    awaited_by: 'text',
    due_at: 'text',
    dedupe_key: 'text',
    dedupe_ttl_ms: 'int',
  },
  sql: (r, d) => `insert into ${d.table('pipeline_runs')}
    (id, pipeline, definition_hash, status, payload, submitted_by, actor, source_event_id,
      parent_job_id, first_job_id, root_job_id, lineage, hops, runtime_caused, event_context_id,
      concurrency_key, concurrency_limit, awaited_by, due_at, dedupe_key, dedupe_ttl_ms, held_key,
      created_at, started_at)
    select ${r('id')}, ${r('pipeline')}, ${r('definition_hash')}, ${r('status')}, ${r('payload')},
      ${r('submitted_by')}, ${r('actor')}, ${r('source_event_id')}, ${r('parent_job_id')},
      ${r('first_job_id')}, ${r('root_job_id')}, ${r('lineage')}, ${r('hops')},
      ${r('runtime_caused')}, ${r('event_context_id')}, ${r('concurrency_key')},
      ${r('concurrency_limit')}, ${r('awaited_by')}, ${r('due_at')}, ${r('dedupe_key')},
      ${r('dedupe_ttl_ms')}, ${r('dedupe_key')}, ${d.now},
      case when ${r('status')} = 'running' then ${d.now} end
      ${r.from}
    where true on conflict do nothing returning id`,
});

function toRunRow(draft: RunDraft, listener: string | null, dueAt: string | null): Row {
  return {
    id: draft.id,
    pipeline: draft.pipeline,
    definition_hash: draft.definitionHash,
    status: draft.concurrency === undefined && dueAt === null ? 'running' : 'queued',
    payload: draft.payload,
    submitted_by: draft.submittedBy,
    actor: draft.actor,
    source_event_id: draft.sourceEventId ?? null,
    parent_job_id: draft.parentJobId ?? null,
    first_job_id: draft.firstJobId,
    root_job_id: draft.rootJobId ?? draft.firstJobId,
    lineage: draft.lineage ?? draft.id,
    hops: draft.hops ?? 0,
    runtime_caused: draft.runtimeCaused === true ? 1 : 0,
    event_context_id: draft.eventContextId ?? null,
    concurrency_key: draft.concurrency?.key ?? null,
    concurrency_limit: draft.concurrency?.limit ?? null,
    awaited_by: draft.isAwaited === true ? listener : null,
    due_at: dueAt,
    dedupe_key: draft.dedupe?.key ?? null,
    dedupe_ttl_ms: draft.dedupe?.ttlMs ?? null,
  };
}

/** The node is empty: the advancer reads the first step from the definition. */
const insertRoot = defineRows({
  columns: { id: 'text', payload: 'text', event_context_id: 'text' },
  sql: (r, d) => `insert into ${d.table('run_branches')}
    (id, run_id, path, node, status, payload, is_whole, event_context_id, outcome, due_at,
      created_at)
    select ${r('id')}, ${r('id')}, '0', '', 'advancing', ${r('payload')}, 1,
      ${r('event_context_id')}, '{"kind":"start"}', ${d.now}, ${d.now} ${r.from}
    where true on conflict (id) do nothing`,
});
