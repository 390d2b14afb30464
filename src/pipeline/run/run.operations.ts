import * as z from 'zod';
import { compact, parseStoredJson } from '../../base/json.ts';
import { runStatuses, type Run } from './run.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Context } from '../../operation/context.ts';
import { readSeqCursor, readEpoch, writeCursor } from '../../operation/page.ts';
import { defineOperation } from '../../operation/define.ts';
import { cursorField, limitField } from '../../operation/page.ts';
import { findById } from '../../operation/find-by-id.ts';
import {
  findOwners,
  readParts,
  branchShape,
  runShape,
  showBranch,
  showRun,
  showSteps,
  stepShape,
  approvalShape,
  listApprovals,
} from './run.service.ts';
import {
  explainRun,
  waitShape,
  formatQuestion,
  listRunActions,
  readWaitingFor,
  runActions,
  waitingForShape,
} from './waits.service.ts';

export const runIdField = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f-]{4,36}$/, 'must be the id of a run, or at least its first 4 characters')
  .describe('the id of a run, or its beginning when that fits only one recent run');

const listedRunShape = runShape.extend({
  asks: z.string().nullable().describe('the first step that waits for a person, and its question'),
  waiting_for: waitingForShape,
});

export const listRunsOperation = defineOperation({
  name: 'run.list',
  summary: 'List runs of pipelines, newest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'runs:ro',
  input: z.strictObject({
    pipeline: z.string().min(1).optional().describe('only runs of this pipeline'),
    status: z.array(z.enum(runStatuses)).min(1).optional().describe('only runs in these states'),
    awaiting_approval: z.boolean().optional().describe('only runs that wait for a person'),
    limit: limitField,
    cursor: cursorField.optional(),
  }),
  output: z.object({
    runs: z.array(listedRunShape),
    next_cursor: z.string().nullable().describe('of the next page; null at the end'),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/runs' },
  cli: {
    flags: {
      pipeline: '-p, --pipeline <name>',
      status: '-s, --status <states>',
      limit: '-n, --limit <count>',
    },
    examples: [
      'ductile run list',
      'ductile run list --pipeline digest --status halted',
      'ductile run list --awaiting-approval',
    ],
    watch: true,
    table: {
      rows: 'runs',
      columns: [
        ['ID', 'run_id'],
        ['PIPELINE', 'pipeline'],
        ['STATUS', 'status'],
        ['REASON', 'halt_reason'],
        ['AT STEP', 'halted_at_step'],
        ['WAITS FOR', 'waiting_for'],
        ['CREATED', 'created_at'],
        ['DUE', 'due_at'],
        ['COMPLETED', 'completed_at'],
        ['MS', 'duration_ms', 'detail'],
        ['BY', 'submitted_by', 'detail'],
        ['ACTOR', 'actor', 'detail'],
        ['REVIVES', 'revived_from', 'detail'],
      ],
      empty: 'There are no such runs.',
    },
  },
  async run({ engine: { ledger } }, { cursor: after, pipeline, status, limit: rows, ...more }) {
    const epoch = await readEpoch(ledger);
    const { rows: runs, next } = await ledger.runs.page({
      ...compact({ pipeline, status }),
      ...(more.awaiting_approval === true ? { awaitingApproval: true } : {}),
      ...(after === undefined ? {} : { beforeSeq: readSeqCursor('r', epoch, after) }),
      limit: rows,
    });
    return {
      runs: await showListedRuns(ledger, runs),
      next_cursor: next === undefined ? null : writeCursor('r', epoch, [next]),
    };
  },
});

async function showListedRuns(
  ledger: Ledger,
  runs: readonly Run[],
): Promise<z.output<typeof listedRunShape>[]> {
  const waits = await readWaitingFor(ledger, runs);
  return runs.map((run) => {
    const waiting = waits.get(run.id) ?? null;
    return { ...showRun(run), asks: formatQuestion(waiting), waiting_for: waiting };
  });
}

export const showRunOperation = defineOperation({
  name: 'run.show',
  summary: 'Tell the whole story of one run: its steps, its branches, and why it waits.',
  effect: 'read',
  needs: 'ledger',
  scope: 'runs:ro',
  input: z.strictObject({ id: runIdField }),
  output: runShape.extend({
    payload: z
      .unknown()
      .describe('what it began with; null where only administrators see the signal behind it'),
    output: z.unknown().describe('what its last step gave'),
    revived_as: z.string().nullable().describe('the run that goes on with its work'),
    steps: z.array(stepShape).describe('in the order in which they were taken'),
    branches: z.array(branchShape),
    waiting: z.array(waitShape).describe('what it waits for, branch by branch'),
    waiting_for: waitingForShape,
    approvals: z.array(approvalShape).describe('who decided about its steps, in order'),
    actions: z.array(z.enum(runActions)).describe('what would work now, the most useful first'),
    complete: z
      .boolean()
      .describe(
        'false when there are more steps or branches than are shown: the first, and failed ones',
      ),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'RUN_NOT_FOUND'],
  http: { method: 'GET', path: '/runs/:id' },
  cli: {
    positionals: ['id'],
    examples: ['ductile run show 0199a1b2', 'ductile run show 0199a1b2 -v'],
    watch: true,
  },
  async run(context, { id }) {
    const { ledger } = context.engine;
    const run = await requireRun(context, id);
    const [parts, waiting, waits, [successor]] = await Promise.all([
      readParts(ledger, run),
      explainRun(ledger, run),
      readWaitingFor(ledger, [run]),
      ledger.runs.list({ revivedFrom: run.id, limit: 1 }),
    ]);
    const waitingFor = waits.get(run.id) ?? null;
    const revivedAs = successor?.id ?? null;
    const { branches, steps, complete } = parts;
    const owners = findOwners(parts);
    return {
      ...showRun(run),
      payload: parseStoredJson(run.payload),
      output: parseStoredJson(run.output),
      revived_as: revivedAs,
      steps: showSteps(steps, branches),
      branches: branches.map((branch) => showBranch(branch, owners.get(branch.id) ?? null)),
      waiting,
      waiting_for: waitingFor,
      approvals: listApprovals(steps),
      actions: listRunActions(run, waitingFor, revivedAs),
      complete,
    };
  },
});

/** Finds the run with this id, or the only recent run whose id starts with it. */
export function requireRun(
  { engine: { ledger } }: Pick<Context, 'engine'>,
  id: string,
): Promise<Run> {
  return findById(id, {
    noun: 'run',
    errorCode: 'RUN_NOT_FOUND',
    findExact: () => ledger.runs.find(id),
    listByPrefix: (page) => ledger.runs.list(page),
  });
}
