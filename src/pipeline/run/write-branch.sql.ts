import {
  defineRows,
  type Dialect,
  type RowsWriter,
  type Transaction,
} from '../../ledger/dialect.ts';
import { defineInsert, defineRowsOf } from '../../ledger/insert.ts';
import type { Due, BranchChanges, BranchDraft } from './changes.ts';
import { branchTable, stepTable } from './run.ts';
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
  const steps = changes.steps.splice(0);
  tx.send(
    insertSteps,
    steps.map((step) => ({
      ...step,
      ...toDueRow(step.due),
      began_at: step.startedAt ?? null,
    })),
  );
  tx.send(closeSteps, changes.closedSteps.splice(0));
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

/** The properties that never change after the insert. */
const fixed = ['id', 'runId', 'parentId', 'parentMoves', 'index', 'label', 'path', 'stop'] as const;

const plain = [
  'node',
  'status',
  'payload',
  'isWhole',
  'eventContextId',
  'jobId',
  'moves',
  'output',
  'lastStepId',
] as const;

/** All but the times, which the database computes. */
const changing = branchTable.except(...fixed, 'dueAt', 'deadlineAt', 'createdAt', 'completedAt');

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

const insertPlain = defineInsert(branchTable, {
  properties: [...fixed, ...plain],
  sql: (r, d) => ({ createdAt: d.now, completedAt: completedAtOf(r, d) }),
});

const updatePlain = defineRowsOf(branchTable, ['id', ...plain], {
  sql: (r, d) => `update ${d.table('run_branches')} set
      ${assign(r, plain)}, completed_at = ${completedAtOf(r, d)}
    ${r.from}
    where run_branches.id = ${r('id')}`,
});

const insertBranches = defineInsert(branchTable, {
  properties: [...fixed, ...changing],
  parameters: dues,
  sql: (r, d) => ({
    dueAt: nextDueOf(r, d, dueOf(r, d)),
    deadlineAt: `case when ${r('is_pause')} = 1 then ${dueOf(r, d)} end`,
    createdAt: d.now,
    completedAt: completedAtOf(r, d),
  }),
});

const updateBranches = defineRowsOf(branchTable, ['id', ...changing], {
  parameters: dues,
  sql: (r, d) => `update ${d.table('run_branches')} set
      ${assign(r, changing)},
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

function assign(r: RowsWriter, properties: readonly string[]): string {
  const columns = properties.flatMap((property) => branchTable.fields.get(property)?.column ?? []);
  return columns.map((column) => `${column} = ${r(column)}`).join(', ');
}

function toBranchRow(branch: BranchDraft) {
  const isWaiting = branch.status === 'waiting';
  return {
    ...branch,
    payload: branch.payloadRef === null ? branch.payload : '{}',
    ...toDueRow(branch.due),
    search_ms: branch.searchInMs ?? null,
    // After a search without a result, the branch waits until the deadline that was set before.
    keeps_deadline: isWaiting && branch.deadlineAt !== null ? 1 : 0,
    is_pause: isWaiting && branch.due !== undefined ? 1 : 0,
  };
}

function toDueRow(due: Due | undefined) {
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

const insertSteps = defineInsert(stepTable, {
  properties: stepTable.except('sourceStepId', 'startedAt', 'dueAt', 'completedAt'),
  parameters: { due_text: 'text', due_ms: 'int', began_at: 'text' },
  sql: (r, d) => ({
    startedAt: `coalesce(${r('began_at')}, ${d.now})`,
    dueAt: dueOf(r, d),
    completedAt: `case when ${r('status')} <> 'waiting' then ${d.now} end`,
  }),
});

const closeSteps = defineRowsOf(
  stepTable,
  ['runId', 'id', 'status', 'output', 'error', 'note', 'nextNode'],
  {
    sql: (r, d) => `update ${d.table('run_steps')} set
        status = ${r('status')}, output = ${r('output')}, error = ${r('error')},
        note = coalesce(${r('note')}, run_steps.note), next_node = ${r('next_node')},
        completed_at = ${d.now}
      ${r.from}
      where run_steps.run_id = ${r('run_id')} and run_steps.id = ${r('id')}
        and run_steps.status = 'waiting'`,
  },
);
