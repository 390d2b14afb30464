import * as z from 'zod';
import { limits } from '../../base/limits.ts';
import { runStatuses } from './run.ts';
import type { Context } from '../../operation/context.ts';
import { defineOperation } from '../../operation/define.ts';
import { direct, directErrors, planDirective, textIn } from '../../operation/request-directive.ts';
import { requireRun, runIdField } from './run.operations.ts';
import { runShape, showRun } from './run.service.ts';

const directiveId = z.string().describe('the record of this change');
const step = z.string().min(1).max(limits.stepNameCharsMax);
const withContext = z
  .boolean()
  .default(true)
  .describe('`false` leaves the baggage of the old run out');

export const cancelRunOperation = defineOperation({
  name: 'run.cancel',
  summary: 'Stop a run: queued work never starts, running processes are stopped.',
  effect: 'destroy',
  scope: 'runs:rw',
  input: z.strictObject({ id: runIdField }),
  output: runShape.extend({
    directive_id: directiveId,
    outcome: z.enum(['cancelled', 'unchanged']).describe('`unchanged`: it had ended before'),
    stopping: z.array(z.string()).describe('running jobs that were told to stop'),
  }),
  errors: [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'RUN_NOT_FOUND'],
  http: { method: 'POST', path: '/runs/:id/cancel' },
  cli: {
    positionals: ['id'],
    examples: ['ductile run cancel 0199a1b2', 'ductile run cancel 0199a1b2 --dry-run'],
    exitCode: ({ status }) => (status === 'cancelled' ? 0 : 1),
  },
  async run(context, { id }) {
    const run = await requireRun(context, id);
    const directive = await direct(context, 'run.cancel', { run_id: run.id });
    const { outcome, stopping } = directive.result;
    return {
      ...showRun(await requireRun(context, run.id)),
      directive_id: directive.id,
      outcome: outcome === 'cancelled' ? ('cancelled' as const) : ('unchanged' as const),
      stopping: Array.isArray(stopping)
        ? stopping.filter((jobId) => typeof jobId === 'string')
        : [],
    };
  },
  async plan(context, { id }) {
    const run = await requireRun(context, id);
    return planDirective(context, 'run.cancel', { run_id: run.id });
  },
});

const revivedRun = runShape.extend({ directive_id: directiveId });

export const reviveRunOperation = defineOperation({
  name: 'run.revive',
  summary: 'Go on with a halted run in a new one, without repeating what succeeded.',
  effect: 'write',
  scope: 'runs:rw',
  input: z.strictObject({ id: runIdField, context: withContext }),
  output: revivedRun,
  errors: [
    ...directErrors,
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'RUN_NOT_FOUND',
    'RUN_NOT_HALTED',
    'RUN_REVIVED',
    'TENANT_LIMIT',
    'TENANT_SUSPENDED',
  ],
  http: {
    method: 'POST',
    path: '/runs/:id/revive',
    status: () => 202,
    statuses: [202],
    location: '/runs/:run_id',
  },
  cli: {
    positionals: ['id'],
    flags: { context: '--no-context' },
    examples: ['ductile run revive 0199a1b2', 'ductile run revive 0199a1b2 --dry-run'],
  },
  run: async (context, { id, context: baggage }) =>
    revive(context, 'run.revive', await toReviveParams(context, id, baggage)),
  plan: async (context, { id, context: baggage }) =>
    planDirective(context, 'run.revive', await toReviveParams(context, id, baggage)),
});

export const retryRunFrom = defineOperation({
  name: 'run.retry-from',
  summary: 'Do a step of an ended run again in a new run, and everything after it.',
  effect: 'write',
  scope: 'runs:rw',
  input: z.strictObject({
    id: runIdField,
    step: step.describe("the step's id in the pipeline"),
    context: withContext,
  }),
  output: revivedRun,
  errors: [
    ...directErrors,
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'RUN_NOT_FOUND',
    'RUN_OPEN',
    'RUN_REVIVED',
    'STEP_AMBIGUOUS',
    'STEP_NOT_FOUND',
    'TENANT_LIMIT',
    'TENANT_SUSPENDED',
  ],
  http: {
    method: 'POST',
    path: '/runs/:id/retry-from',
    status: () => 202,
    statuses: [202],
    location: '/runs/:run_id',
  },
  cli: {
    positionals: ['id', 'step'],
    flags: { context: '--no-context' },
    examples: ['ductile run retry-from 0199a1b2 publish'],
  },
  run: async (context, { step: from, id, context: baggage }) =>
    revive(context, 'run.retry_from', {
      ...(await toReviveParams(context, id, baggage)),
      step: from,
    }),
  plan: async (context, { step: from, id, context: baggage }) =>
    planDirective(context, 'run.retry_from', {
      ...(await toReviveParams(context, id, baggage)),
      step: from,
    }),
});

const decisionInput = z.strictObject({
  id: runIdField,
  step: step.describe("the step's id in the pipeline, or the id of the one that waits"),
  why: z
    .string()
    .min(1)
    .max(limits.decisionReasonCharsMax)
    .optional()
    .describe('the reason, for the record'),
});

const decisionOutput = z.object({
  run_id: z.string(),
  run_status: z.enum(runStatuses),
  step: z.string(),
  step_id: z.string(),
  approved: z.boolean(),
  by: z.string(),
  at: z.string().describe('UTC, ISO 8601 with milliseconds'),
  why: z.string().nullable(),
  directive_id: directiveId,
});

export const approveStep = defineDecision(true);
export const rejectStep = defineDecision(false);

function defineDecision(approved: boolean) {
  const verb = approved ? 'approve' : 'reject';
  return defineOperation({
    name: `run.${verb}`,
    summary: approved
      ? 'Say yes to a step that waits for a person, so that its branch goes on.'
      : 'Say no to a step that waits for a person.',
    effect: 'write',
    scope: 'runs:rw',
    input: decisionInput,
    output: decisionOutput,
    errors: [
      ...directErrors,
      'INPUT_INVALID',
      'LEDGER_UNAVAILABLE',
      'RUN_NOT_FOUND',
      'STEP_AMBIGUOUS',
      'STEP_NOT_FOUND',
      'STEP_NOT_WAITING',
    ],
    http: { method: 'POST', path: `/runs/:id/steps/:step/${verb}` },
    cli: {
      positionals: ['id', 'step'],
      flags: { why: '--why <reason>' },
      examples: [`ductile run ${verb} 0199a1b2 publish --why "read and checked"`],
    },
    async run(context, input) {
      const params = await toDecisionParams(context, input, approved);
      const { id, result } = await direct(context, 'run.approve', params);
      const run = await requireRun(context, textIn(result, 'run_id'));
      return {
        run_id: run.id,
        run_status: run.status,
        step: textIn(result, 'step'),
        step_id: textIn(result, 'step_id'),
        approved,
        by: textIn(result, 'by'),
        at: textIn(result, 'at'),
        why: input.why ?? null,
        directive_id: id,
      };
    },
    plan: async (context, input) =>
      planDirective(context, 'run.approve', await toDecisionParams(context, input, approved)),
  });
}

async function toDecisionParams(
  context: Context,
  { id, step: name, why }: z.output<typeof decisionInput>,
  approved: boolean,
): Promise<object> {
  const run = await requireRun(context, id);
  return { run_id: run.id, step: name, approved, ...(why === undefined ? {} : { why }) };
}

async function toReviveParams(context: Context, id: string, baggage: boolean) {
  const run = await requireRun(context, id);
  return { run_id: run.id, context: baggage };
}

async function revive(
  context: Context,
  type: string,
  params: object,
): Promise<z.output<typeof revivedRun>> {
  const { id, result } = await direct(context, type, params);
  return { ...showRun(await requireRun(context, textIn(result, 'run_id'))), directive_id: id };
}
