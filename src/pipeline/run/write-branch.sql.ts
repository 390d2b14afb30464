import {
  defineRows,
  type Dialect,
  type Row,
  type RowsWriter,
  type Transaction,
} from '../../ledger/dialect.ts';
import type { Due, BranchChanges, BranchDraft, StepDraft } from './changes.ts';
import { insertContexts, insertPlainJobs } from '../../job/enqueue.sql.ts';
import { insertSignals } from '../../signal/signal.sql.ts';

/** Writes the changes so far. Later statements of the same transaction see them. */
export function flushChanges(tx: Transaction, changes: BranchChanges): void {
  insertContexts(tx, changes.contexts.splice(0));
  const signals = changes.signals.splice(0);
  if (signals.length > 0) insertSignals(tx, signals);
  tx.send(
    insertPayloads,
    changes.payloads.splice(0).map(({ id, runId, payload }) => ({ id, run_id: runId, payload })),
  );
  const [plainStarted, started] = partition(drain(changes.started), isPlain);
  tx.send(insertPlain, plainStarted.map(toBranchRow));
  tx.send(insertBranches, started.map(toBranchRow));
  // Lock order: every transaction updates branches in the order of ids.
  const all = drain(changes.moved).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const [plainMoved, moved] = partition(
    all,
    (branch) => branch.stored === 'plain' && isPlain(branch),
  );
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
  id: 'text',
  run_id: 'text',
  parent_id: 'text',
  label: 'text',
  path: 'text',
  stop: 'text',
  parent_moves: 'int',
  idx: 'int',
} as const;

const plain = {
  node: 'text',
  status: 'text',
  payload: 'text',
  event_context_id: 'text',
  job_id: 'text',
  output: 'text',
  last_step_id: 'text',
  is_whole: 'int',
  moves: 'int',
} as const;

const changing = {
  ...plain,
  payload_ref: 'text',
  block: 'text',
  outcome: 'text',
  waits_for: 'text',
  claim_token: 'text',
  claimed_by: 'text',
  halt_reason: 'text',
  halt_message: 'text',
  width: 'int',
  cursor: 'int',
  pending: 'int',
  halted: 'int',
  concurrency: 'int',
  wake_from: 'int',
  tries: 'int',
  crashes: 'int',
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

function namesOf(columns: object): string {
  return Object.keys(columns).join(', ');
}

function valuesOf(r: RowsWriter, columns: object): string {
  return Object.keys(columns)
    .map((name) => r(name))
    .join(', ');
}

function assignmentsOf(r: RowsWriter, columns: object): string {
  return Object.keys(columns)
    .map((name) => `${name} = ${r(name)}`)
    .join(', ');
}

const insertPlain = defineRows({
  columns: { ...fixed, ...plain },
  sql: (r, d) => `insert into ${d.table('run_branches')}
    (${namesOf(fixed)}, ${namesOf(plain)}, created_at, completed_at)
    select ${valuesOf(r, fixed)}, ${valuesOf(r, plain)}, ${d.now}, ${completedAtOf(r, d)} ${r.from}`,
});

const updatePlain = defineRows({
  columns: { id: 'text', ...plain },
  sql: (r, d) => `update ${d.table('run_branches')} set
      ${assignmentsOf(r, plain)}, completed_at = ${completedAtOf(r, d)}
    ${r.from}
    where run_branches.id = ${r('id')}`,
});

const insertBranches = defineRows({
  columns: { ...fixed, ...changing, ...dues },
  sql: (r, d) => `insert into ${d.table('run_branches')}
    (${namesOf(fixed)}, ${namesOf(changing)}, due_at, deadline_at, created_at, completed_at)
    select ${valuesOf(r, fixed)}, ${valuesOf(r, changing)}, ${nextDueOf(r, d, dueOf(r, d))},
      case when ${r('is_pause')} = 1 then ${dueOf(r, d)} end, ${d.now},
      ${completedAtOf(r, d)} ${r.from}`,
});

const updateBranches = defineRows({
  columns: { id: 'text', ...changing, ...dues },
  sql: (r, d) => `update ${d.table('run_branches')} set
      ${assignmentsOf(r, changing)},
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
} as const;

const insertSteps = defineRows({
  columns: { ...stepColumns, started_at: 'text', due_text: 'text', due_ms: 'int' },
  sql: (r, d) => `insert into ${d.table('run_steps')}
    (${namesOf(stepColumns)}, started_at, due_at, completed_at)
    select ${valuesOf(r, stepColumns)}, coalesce(${r('started_at')}, ${d.now}), ${dueOf(r, d)},
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
