import * as z from 'zod';
import type { StartedCommand } from '../../access/scopes.ts';
import { DuctileError } from '../../base/errors.ts';
import { makeId } from '../../base/ids.ts';
import type { JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { suggest } from '../../base/text.ts';
import type { DirectiveExecution, PreparedWork } from '../../directive/define.service.ts';
import type { DirectiveContext } from '../../engine/directive-context.ts';
import { findChildHops } from '../../job/enqueue.service.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Context } from '../../operation/context.ts';
import { defineDirective, directiveIdField } from '../../operation/define-directive.ts';
import { textIn } from '../../operation/request-directive.ts';
import { listPipelineCommands } from '../language/graph.ts';
import { cancelRun } from './change.sql.ts';
import { reviveRun } from './revive.sql.ts';
import type { Run } from './run.ts';
import { requireRun, runIdField } from './run.operations.ts';
import { runShape, showRun } from './run.service.ts';
import type { Revival } from './types.ts';

/** The most branches that a plan counts. */
const OPEN_COUNTED_MAX = 100;

const STEPS = 'The effects of steps cannot be undone. A run can be continued only once.';

const runId = z.string().min(1).describe('the id of the run');
const withContext = z
  .boolean()
  .default(true)
  .describe('`false` omits the baggage of the old run (default: true)');

export const cancelRunDirective = defineDirective({
  type: 'run.cancel',
  summary: 'Cancel a run. Queued jobs never start, and running processes are stopped.',
  lasting: 'A cancelled run stays cancelled. Use `ductile run retry-from` to repeat its work.',
  scope: 'runs:rw',
  params: z.strictObject({ run_id: runId }),
  isForHandlers: true,
  sameness: () => 'toggle',
  target: ({ run_id: id }) => id,
  async plan({ ledger }, { run_id: id }) {
    const run = await requireKnownRun(ledger, id);
    if (run.completedAt !== null) {
      return [`${describeRun(run)} is already ${run.status}; nothing would change.`];
    }
    if (run.status === 'queued') return [`${describeRun(run)} will never start.`];
    const { length } = await ledger.runs.listBranches({
      runId: id,
      open: true,
      limit: OPEN_COUNTED_MAX,
    });
    const open = `${length}${length === OPEN_COUNTED_MAX ? ' or more' : ''} of its branches`;
    return [
      `${describeRun(run)} will be cancelled: queued jobs never start, running ones are stopped.`,
      `${open} will end with it.`,
    ];
  },
  prepare: (_context, { run_id: id }) => ({ work: (tx) => cancelRun(tx, id) }),
  after({ commits }, { run_id: id }, { outcome, stopping }) {
    if (outcome !== 'cancelled') return;
    commits.publish({ cancelling: listTexts(stopping) });
    // Another run of its concurrency key can start.
    commits.publish({ advancing: true, ended: [id] });
  },
  operation: {
    effect: 'destroy',
    input: z.strictObject({ id: runIdField }),
    output: runShape.extend({
      directive_id: directiveIdField,
      outcome: z
        .enum(['cancelled', 'unchanged'])
        .describe('`unchanged`: the run had already ended'),
      stopping: z.array(z.string()).describe('running jobs that are being stopped'),
    }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'RUN_NOT_FOUND'],
    http: { method: 'POST', path: '/runs/:id/cancel' },
    cli: {
      positionals: ['id'],
      examples: ['ductile run cancel 0199a1b2', 'ductile run cancel 0199a1b2 --dry-run'],
      exitCode: ({ status }) => (status === 'cancelled' ? 0 : 1),
    },
    toParams: async (context, { id }) => ({ run_id: (await requireRun(context, id)).id }),
    toOutput: async (context, { result }) => ({
      ...showRun(await requireRun(context, textIn(result, 'run_id'))),
      outcome: result['outcome'] === 'cancelled' ? ('cancelled' as const) : ('unchanged' as const),
      stopping: listTexts(result['stopping']),
    }),
  },
});

/** The parts that a revival and a retry from a step have in common. */
const common = {
  lasting: STEPS,
  scope: 'runs:rw',
  startsWork: true,
  findStarted: findRunCommands,
  // Not deduplicated here: the second caller gets RUN_REVIVED with the id of the first revival.
  sameness: () => 'each' as const,
  target: ({ run_id: id }: { readonly run_id: string }) => id,
  after: ({ commits }: DirectiveContext) => commits.publish({ advancing: true }),
} as const;

const commonOperation = {
  effect: 'write',
  output: runShape.extend({ directive_id: directiveIdField }),
  toOutput: async (context: Context, { result }: { readonly result: JsonObject }) =>
    showRun(await requireRun(context, textIn(result, 'run_id'))),
} as const;

export const reviveRunDirective = defineDirective({
  ...common,
  type: 'run.revive',
  summary: 'Continue a halted run in a new run, without repeating the steps that succeeded.',
  params: z.strictObject({ run_id: runId, context: withContext }),
  async plan({ ledger }, { run_id: id, context }) {
    const run = await requireKnownRun(ledger, id);
    await checkNotRevived(ledger, run);
    if (run.status !== 'halted') {
      throw new DuctileError('RUN_NOT_HALTED', `run ${id} is ${run.status}, not halted`);
    }
    const where = run.haltedAtStep === null ? '' : ` at step ${run.haltedAtStep}`;
    return [
      `${describeRun(run)}, which halted${where} (${run.haltReason}), will continue in a new run.`,
      'Steps that succeeded will not be repeated.',
      ...describeContext(context),
    ];
  },
  prepare: ({ ledger }, { run_id: of, context }, execution) =>
    prepareRevival(ledger, { of, withContext: context }, execution),
  operation: {
    ...commonOperation,
    input: z.strictObject({ id: runIdField, context: withContext }),
    errors: [
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
    toParams: async (context, { id, context: baggage }) => ({
      run_id: (await requireRun(context, id)).id,
      context: baggage,
    }),
  },
});

const step = z
  .string()
  .min(1)
  .max(limits.stepNameCharsMax)
  .describe("the step's id in the pipeline");

export const retryRunFromDirective = defineDirective({
  ...common,
  type: 'run.retry_from',
  summary: 'Repeat a step of an ended run, and all later steps, in a new run.',
  params: z.strictObject({ run_id: runId, step, context: withContext }),
  async plan({ ledger }, { run_id: id, step: name, context }) {
    const run = await requireKnownRun(ledger, id);
    await checkNotRevived(ledger, run);
    if (run.completedAt === null) throw new DuctileError('RUN_OPEN', `run ${id} is ${run.status}`);
    const graph = await ledger.runs.findDefinition(run.definitionHash);
    const names = Object.keys(graph?.nodes ?? {});
    if (!names.includes(name)) {
      const hint = suggest(name, names, 'steps');
      const message = `pipeline ${run.pipeline} has no step ${name}`;
      throw new DuctileError('STEP_NOT_FOUND', message, { hint });
    }
    const refusal = await ledger.runs.findRetryFromRefusal(id, name);
    if (refusal !== undefined) {
      throw new DuctileError(refusal.code, refusal.error, { place: name });
    }
    return [
      `Step ${name} of ${describeRun(run)} and all later steps will run again in a new run.`,
      'Earlier steps will not be repeated.',
      ...describeContext(context),
    ];
  },
  prepare: ({ ledger }, { run_id: of, step: from, context }, execution) =>
    prepareRevival(ledger, { of, withContext: context, from }, execution),
  operation: {
    ...commonOperation,
    name: 'run.retry-from',
    input: z.strictObject({ id: runIdField, step, context: withContext }),
    errors: [
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
    toParams: async (context, { id, step: name, context: baggage }) => ({
      run_id: (await requireRun(context, id)).id,
      step: name,
      context: baggage,
    }),
  },
});

async function prepareRevival(
  ledger: Ledger,
  wanted: Pick<Revival, 'of' | 'withContext' | 'from'>,
  { actor }: DirectiveExecution,
): Promise<PreparedWork> {
  const hops = await findChildHops(actor, ledger);
  const revival = { ...wanted, id: makeId(), firstJobId: makeId(), hops };
  return { work: (tx, by) => reviveRun(tx, revival, by), jobs: 1 };
}

async function checkNotRevived(ledger: Ledger, { id }: Run): Promise<void> {
  const [successor] = await ledger.runs.list({ revivedFrom: id, limit: 1 });
  if (successor === undefined) return;
  const message = `run ${successor.id} continues the work of run ${id}`;
  throw new DuctileError('RUN_REVIVED', message, { place: id, details: { run_id: successor.id } });
}

export async function requireKnownRun(ledger: Ledger, id: string): Promise<Run> {
  const run = await ledger.runs.find(id);
  if (run !== undefined) return run;
  throw new DuctileError('RUN_NOT_FOUND', `there is no run ${id}`, { place: id });
}

function describeContext(isKept: boolean): string[] {
  return isKept ? [] : ['The new run will not have its baggage.'];
}

export function describeRun({ id, pipeline }: Run): string {
  return `run ${id} (${pipeline})`;
}

function listTexts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

/** Finds the commands that the rest of a run can start. */
export async function findRunCommands(
  { ledger }: Pick<DirectiveContext, 'ledger'>,
  { run_id: id }: { readonly run_id: string },
): Promise<StartedCommand[]> {
  const run = await ledger.runs.find(id);
  const graph = run && (await ledger.runs.findDefinition(run.definitionHash));
  return graph === undefined ? [] : listPipelineCommands({ name: run?.pipeline ?? '', graph });
}
