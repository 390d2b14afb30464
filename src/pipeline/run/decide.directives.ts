import * as z from 'zod';
import { DuctileError } from '../../base/errors.ts';
import { compact } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Context } from '../../operation/context.ts';
import {
  defineDirective,
  defineDirectiveOperation,
  directiveIdField,
  type CompletedDirective,
} from '../../operation/define-directive.ts';
import { textIn } from '../../operation/request-directive.ts';
import type { NodeKind } from '../language/graph.ts';
import { decideStep } from './change.sql.ts';
import { describeDecision, runStatuses, type Run, type Step } from './run.ts';
import { describeRun, findRunCommands, requireKnownRun } from './run.directives.ts';
import { requireRun, runIdField } from './run.operations.ts';

const decisionFields = {
  step: z
    .string()
    .min(1)
    .max(limits.stepNameCharsMax)
    .describe("the step's id in the pipeline, or the `step_id` of the waiting step"),
  why: z
    .string()
    .min(1)
    .max(limits.decisionReasonCharsMax)
    .optional()
    .describe('the reason to record'),
};

const input = z.strictObject({ id: runIdField, ...decisionFields });

/** The parts that an approval and a rejection have in common. */
const common = {
  effect: 'write',
  input,
  output: z.object({
    run_id: z.string(),
    run_status: z.enum(runStatuses),
    step: z.string(),
    step_id: z.string(),
    approved: z.boolean(),
    by: z.string(),
    at: z.string().describe('UTC, ISO 8601 with milliseconds'),
    why: z.string().nullable(),
    directive_id: directiveIdField,
  }),
  errors: [
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'RUN_NOT_FOUND',
    'STEP_AMBIGUOUS',
    'STEP_NOT_FOUND',
    'STEP_NOT_WAITING',
  ],
} as const;

export const decideStepDirective = defineDirective({
  type: 'run.approve',
  summary: 'Approve or reject a step that waits for approval.',
  lasting: 'A decision cannot be changed.',
  scope: 'runs:rw',
  isDecision: true,
  findStarted: findRunCommands,
  params: z.strictObject({
    run_id: z.string().min(1).describe('the id of the run'),
    ...decisionFields,
    approved: z.boolean().default(true).describe('`false` rejects the step (default: true)'),
  }),
  sameness: () => 'each',
  target: ({ run_id: id, step }) => `${id}/${step}`,
  async plan({ ledger }, { run_id: id, step, approved }) {
    const run = await requireKnownRun(ledger, id);
    const page = { runId: id, status: 'waiting', limit: limits.pageRowsMax } as const;
    const open = (await ledger.runs.listSteps(page)).filter(({ kind }) => kind === 'approve');
    const matching = open.filter(({ id: stepId, node }) => node === step || stepId === step);
    const what = approved ? 'approved' : 'rejected';
    if (matching.length === 1) return [`Step ${step} of ${describeRun(run)} will be ${what}.`];
    if (matching.length === 0) return await throwNotWaiting(ledger, run, step, open);
    throw new DuctileError('STEP_AMBIGUOUS', `step ${step} waits on several branches`, {
      place: step,
      details: { step_ids: matching.slice(0, NAMED_STEPS_MAX).map(({ id: stepId }) => stepId) },
    });
  },
  prepare(_context, { run_id: runId, step, approved, why }) {
    const decision = { runId, step, approved, ...compact({ why }) };
    return { work: (tx, actor) => decideStep(tx, decision, actor) };
  },
  after: ({ commits }) => commits.publish({ advancing: true }),
  operation: {
    ...common,
    summary: 'Approve a step that waits for approval, so that its branch continues.',
    http: { method: 'POST', path: '/runs/:id/steps/:step/approve' },
    cli: {
      positionals: ['id', 'step'],
      flags: { why: '--why <reason>' },
      examples: ['ductile run approve 0199a1b2 publish --why "read and checked"'],
    },
    toParams: (context, decision) => toDecisionParams(context, decision, true),
    toOutput: (context, completed) => showDecision(context, completed, true),
  },
});

export const rejectStep = defineDirectiveOperation(decideStepDirective, {
  ...common,
  name: 'run.reject',
  summary: 'Reject a step that waits for approval.',
  http: { method: 'POST', path: '/runs/:id/steps/:step/reject' },
  cli: {
    positionals: ['id', 'step'],
    flags: { why: '--why <reason>' },
    examples: ['ductile run reject 0199a1b2 publish --why "read and checked"'],
  },
  toParams: (context, decision) => toDecisionParams(context, decision, false),
  toOutput: (context, completed) => showDecision(context, completed, false),
});

async function toDecisionParams(
  context: Context,
  { id, step, why }: z.output<typeof input>,
  approved: boolean,
): Promise<object> {
  const run = await requireRun(context, id);
  return { run_id: run.id, step, approved, ...compact({ why }) };
}

async function showDecision(
  context: Context,
  { input: { why }, result }: CompletedDirective<z.output<typeof input>>,
  approved: boolean,
) {
  const run = await requireRun(context, textIn(result, 'run_id'));
  return {
    run_id: run.id,
    run_status: run.status,
    step: textIn(result, 'step'),
    step_id: textIn(result, 'step_id'),
    approved,
    by: textIn(result, 'by'),
    at: textIn(result, 'at'),
    why: why ?? null,
  };
}

/** The most steps that an error names. */
const NAMED_STEPS_MAX = 20;

async function throwNotWaiting(
  ledger: Ledger,
  { id, definitionHash }: Run,
  step: string,
  open: readonly Step[],
): Promise<never> {
  const graph = await ledger.runs.findDefinition(definitionHash);
  const [past] = await ledger.runs.listSteps({ runId: id, node: step, limit: 1 });
  const waiting = [...new Set(open.map(({ node }) => node))].slice(0, NAMED_STEPS_MAX);
  const hint = waiting.length === 0 ? {} : { hint: `These steps wait: ${waiting.join(', ')}.` };
  if (graph?.nodes[step] === undefined && past === undefined) {
    throw new DuctileError('STEP_NOT_FOUND', `run ${id} has no waiting step ${step}`, {
      place: step,
      ...hint,
    });
  }
  const why = explainNotWaiting(graph?.nodes[step]?.kind, past);
  const message = `step ${step} of run ${id} does not wait for approval: ${why}`;
  throw new DuctileError('STEP_NOT_WAITING', message, { place: step, ...hint });
}

function explainNotWaiting(kind: NodeKind | undefined, past: Step | undefined): string {
  if (kind !== undefined && kind !== 'approve') return `it is a ${kind} step`;
  return past === undefined ? 'the run has not reached it' : describeDecision(past);
}
