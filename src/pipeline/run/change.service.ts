import type { LedgerContext } from '../../engine/context.ts';
import { DuctileError } from '../../base/errors.ts';
import { makeId } from '../../base/ids.ts';
import { limits } from '../../base/limits.ts';
import { suggest } from '../../base/text.ts';
import {
  cancelRunType,
  decideType,
  retryFromType,
  reviveRunType,
  type DecisionChoice,
  type RetryFromChoice,
  type ReviveChoice,
  type RunChoice,
} from './change-directives.ts';
import type { Revival } from './types.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { NodeKind } from '../language/graph.ts';
import { describeDecision, type Run, type Step } from './run.ts';
import { cancelRun, decideStep } from './change.sql.ts';
import { reviveRun } from './revive.sql.ts';
import { findChildHops } from '../../job/enqueue.service.ts';
import type {
  DirectiveExecution,
  BoundDirective,
  PreparedWork,
} from '../../directive/define.service.ts';
import type { Directives } from '../../directive/request.service.ts';

/** The most branches that a plan counts. */
const OPEN_COUNTED_MAX = 100;

export function registerRunDirectives(directives: Directives, context: LedgerContext): void {
  directives.registerDirective(cancelRunDirective(context));
  directives.registerDirective(reviveDirective(context));
  directives.registerDirective(retryFromDirective(context));
  directives.registerDirective(decideDirective(context));
}

function cancelRunDirective({ ledger, commits }: LedgerContext): BoundDirective<RunChoice> {
  return {
    ...cancelRunType,
    async plan({ run_id: id }) {
      const run = await requireRun(ledger, id);
      if (run.completedAt !== null) {
        return [`${nameOf(run)} is ${run.status} already; nothing would change.`];
      }
      if (run.status === 'queued') return [`${nameOf(run)} would never begin.`];
      const { length } = await ledger.runs.listBranches({
        runId: id,
        open: true,
        limit: OPEN_COUNTED_MAX,
      });
      const open = `${length}${length === OPEN_COUNTED_MAX ? ' or more' : ''} of its branches`;
      return [
        `${nameOf(run)} would be cancelled: what is queued never starts, what runs is stopped.`,
        `${open} would end with it.`,
      ];
    },
    prepare: ({ run_id: runId }) => ({ work: (tx) => cancelRun(tx, runId) }),
    after({ run_id: runId }, { outcome, stopping }) {
      if (outcome !== 'cancelled') return;
      for (const jobId of Array.isArray(stopping) ? stopping : []) {
        if (typeof jobId === 'string') commits.publish({ cancelling: [jobId] });
      }
      // Another run of its concurrency key can start.
      commits.publish({ advancing: true, ended: [runId] });
    },
  };
}

function reviveDirective({ ledger, commits }: LedgerContext): BoundDirective<ReviveChoice> {
  return {
    ...reviveRunType,
    async plan({ run_id: id, context }) {
      const run = await requireRun(ledger, id);
      await checkNotRevived(ledger, run);
      if (run.status !== 'halted') {
        throw new DuctileError('RUN_NOT_HALTED', `run ${id} is ${run.status}, not halted`);
      }
      const where = run.haltedAtStep === null ? '' : ` at step ${run.haltedAtStep}`;
      return [
        `${nameOf(run)}, which halted${where} (${run.haltReason}), would go on in a new run.`,
        'What succeeded would not be repeated.',
        ...describeContext(context),
      ];
    },
    prepare: ({ run_id: of, context }, asked) =>
      prepareRevival(ledger, { of, withContext: context }, asked),
    after: () => commits.publish({ advancing: true }),
  };
}

function retryFromDirective({ ledger, commits }: LedgerContext): BoundDirective<RetryFromChoice> {
  return {
    ...retryFromType,
    async plan({ run_id: id, step, context }) {
      const run = await requireRun(ledger, id);
      await checkNotRevived(ledger, run);
      if (run.completedAt === null)
        throw new DuctileError('RUN_OPEN', `run ${id} is ${run.status}`);
      const graph = await ledger.runs.findDefinition(run.definitionHash);
      const names = Object.keys(graph?.nodes ?? {});
      if (!names.includes(step)) {
        const hint = suggest(step, names, 'steps');
        throw new DuctileError('STEP_NOT_FOUND', `${run.pipeline} has no step ${step}`, { hint });
      }
      const refusal = await ledger.runs.findRetryFromRefusal(id, step);
      if (refusal !== undefined) {
        throw new DuctileError(refusal.code, refusal.error, { place: step });
      }
      return [
        `Step ${step} of ${nameOf(run)}, and all that came after it, would be done in a new run.`,
        'What was done before it counts as done.',
        ...describeContext(context),
      ];
    },
    prepare: ({ run_id: of, step: from, context }, asked) =>
      prepareRevival(ledger, { of, withContext: context, from }, asked),
    after: () => commits.publish({ advancing: true }),
  };
}

async function prepareRevival(
  ledger: Ledger,
  wanted: Pick<Revival, 'of' | 'withContext' | 'from'>,
  { actor }: DirectiveExecution,
): Promise<PreparedWork> {
  const hops = await findChildHops(actor, ledger);
  const revival = { ...wanted, id: makeId(), firstJobId: makeId(), hops };
  return { work: (tx, by) => reviveRun(tx, revival, by), jobs: 1 };
}

function decideDirective({ ledger, commits }: LedgerContext): BoundDirective<DecisionChoice> {
  return {
    ...decideType,
    async plan({ run_id: id, step, approved }) {
      const run = await requireRun(ledger, id);
      const page = { runId: id, status: 'waiting', limit: limits.pageRowsMax } as const;
      const open = (await ledger.runs.listSteps(page)).filter(({ kind }) => kind === 'approve');
      const matching = open.filter(({ id: stepId, node }) => node === step || stepId === step);
      const what = approved ? 'approved' : 'rejected';
      if (matching.length === 1) return [`Step ${step} of ${nameOf(run)} would be ${what}.`];
      if (matching.length === 0) return await throwNotWaiting(ledger, run, step, open);
      throw new DuctileError('STEP_AMBIGUOUS', `step ${step} waits on several branches`, {
        place: step,
        details: { step_ids: matching.slice(0, NAMED_STEPS_MAX).map(({ id: stepId }) => stepId) },
      });
    },
    prepare({ run_id: runId, step, approved, why }) {
      const decision = { runId, step, approved, ...(why === undefined ? {} : { why }) };
      return { work: (tx, actor) => decideStep(tx, decision, actor) };
    },
    after: () => commits.publish({ advancing: true }),
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
  const hint = waiting.length === 0 ? {} : { hint: `Waiting are: ${waiting.join(', ')}.` };
  if (graph?.nodes[step] === undefined && past === undefined) {
    throw new DuctileError('STEP_NOT_FOUND', `run ${id} has no step ${step} that waits`, {
      place: step,
      ...hint,
    });
  }
  const why = explainNotWaiting(graph?.nodes[step]?.kind, past);
  throw new DuctileError('STEP_NOT_WAITING', `step ${step} of run ${id} does not wait: ${why}`, {
    place: step,
    ...hint,
  });
}

function explainNotWaiting(kind: NodeKind | undefined, past: Step | undefined): string {
  if (kind !== undefined && kind !== 'approve') return `it is a ${kind}, and nobody is asked`;
  return past === undefined ? 'the run has not come to it' : describeDecision(past);
}

async function checkNotRevived(ledger: Ledger, { id }: Run): Promise<void> {
  const [successor] = await ledger.runs.list({ revivedFrom: id, limit: 1 });
  if (successor === undefined) return;
  const message = `run ${successor.id} goes on with the work of run ${id}`;
  throw new DuctileError('RUN_REVIVED', message, { place: id, details: { run_id: successor.id } });
}

async function requireRun(ledger: Ledger, id: string): Promise<Run> {
  const run = await ledger.runs.find(id);
  if (run !== undefined) return run;
  throw new DuctileError('RUN_NOT_FOUND', `there is no run ${id}`, { place: id });
}

function describeContext(isKept: boolean): string[] {
  return isKept ? [] : ['Its baggage would be left out.'];
}

function nameOf({ id, pipeline }: Run): string {
  return `run ${id} (${pipeline})`;
}
