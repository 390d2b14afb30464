import {
  defineRows,
  type Dialect,
  type Row,
  type RowsWriter,
  type Transaction,
} from '../../ledger/dialect.ts';
import type { Due, Effects, MovedBranch, StepDraft } from './changes.ts';
import { insertContexts, insertPlainJobs } from '../../job/enqueue.sql.ts';
import { insertSignals } from '../../signal/signal.sql.ts';

/** Writes what was collected so far; whoever reads after it in the same transaction sees it. */
export function flush(tx: Transaction, effects: Effects): void {
  insertContexts(tx, effects.contexts.splice(0));
  insertSignals(tx, effects.signals.splice(0));
  tx.send(
    insertPayloads,
    effects.payloads.splice(0).map(({ id, runId, payload }) => ({ id, run_id: runId, payload })),
  );
  const [begunPlain, begun] = apart(drain(effects.begun), isPlain);
  tx.send(insertPlain, begunPlain.map(toBranchRow));
  tx.send(insertBranches, begun.map(toBranchRow));
  // In one order for everybody who holds several.
  const all = drain(effects.moved).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const [movedPlain, moved] = apart(all, (branch) => branch.wasPlain && isPlain(branch));
  tx.send(updatePlain, movedPlain.map(toBranchRow));
  tx.send(updateBranches, moved.map(toBranchRow));
  tx.send(insertSteps, effects.steps.splice(0).map(toStepRow));
  tx.send(closeSteps, effects.closedSteps.splice(0).map(toStepRow));
  insertPlainJobs(tx, effects.jobs.splice(0));
}

function drain(branches: Map<string, MovedBranch>): MovedBranch[] {
  const all = [...branches.values()];
  branches.clear();
  return all;
}

function apart<T>(all: readonly T[], isFirst: (one: T) => boolean): [T[], T[]] {
  return [all.filter((one) => isFirst(one)), all.filter((one) => !isFirst(one))];
}

/** Most branches go from job to job and end well: these need few of the columns. */
function isPlain({ status, outcome }: MovedBranch): boolean {
  return (status === 'running' || status === 'succeeded') && outcome === null;
}

/** What never changes once a branch is begun. */
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
  look_ms: 'int',
  keeps_deadline: 'int',
  is_pause: 'int',
} as const;

function dueOf(r: RowsWriter, d: Dialect): string {
  return `coalesce(${r('due_text')}, case when ${r('due_ms')} is not null
    then ${d.nowPlus(r('due_ms'))} end)`;
}

/** When to look at it: at the end of its wait, or before. */
function lookOf(r: RowsWriter, d: Dialect, due: string): string {
  const look = d.nowPlus(r('look_ms'));
  return `case when ${r('look_ms')} is null then ${due}
    when ${due} <= ${look} then ${due} else ${look} end`;
}

function endOf(r: RowsWriter, d: Dialect): string {
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
      ${d.now}, ${endOf(r, d)} ${r.from}`,
});

const updatePlain = defineRows({
  columns: { id: 'text', ...plain },
  sql: (r, d) => `update ${d.table('run_branches')} set
      ${plainNames.map((name) => `${name} = ${r(name)}`).join(', ')}, completed_at = ${endOf(r, d)}
    ${r.from}
    where run_branches.id = ${r('id')}`,
});

const insertBranches = defineRows({
  columns: { id: 'text', ...fixed, ...changing, ...dues },
  sql: (r, d) => `insert into ${d.table('run_branches')}
    (id, ${[...fixedNames, ...changingNames].join(', ')}, due_at, deadline_at, created_at,
      completed_at)
    select ${r('id')}, ${[...fixedNames, ...changingNames].map((name) => r(name)).join(', ')},
      ${lookOf(r, d, dueOf(r, d))},
      case when ${r('is_pause')} = 1 then ${dueOf(r, d)} end, ${d.now},
      ${endOf(r, d)} ${r.from}`,
});

const updateBranches = defineRows({
  columns: { id: 'text', ...changing, ...dues },
  sql: (r, d) => `update ${d.table('run_branches')} set
      ${changingNames.map((name) => `${name} = ${r(name)}`).join(', ')},
      due_at = ${lookOf(
        r,
        d,
        `case when ${r('keeps_deadline')} = 1 then run_branches.deadline_at else ${dueOf(r, d)} end`,
      )},
      deadline_at = case when ${r('is_pause')} = 1 then ${dueOf(r, d)}
        when ${r('keeps_deadline')} = 1 then run_branches.deadline_at end,
      completed_at = ${endOf(r, d)}
    ${r.from}
    where run_branches.id = ${r('id')}`,
});

function toBranchRow(branch: MovedBranch): Row {
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
    look_ms: branch.lookInMs ?? null,
    // Whoever looked in vain goes on waiting until the time that was set before.
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
