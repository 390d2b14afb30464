import * as z from 'zod';
import { limits } from '../../base/limits.ts';
import type { Job } from '../../job/job.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Advancement } from './types.ts';
import { HELD_DAY, type Branch, type Run, type Step } from './run.ts';
import { describeState } from '../../insight/why/explanation.ts';

/** Branches whose reason is told; of the others it is enough to know that they are open. */
const TOLD_MAX = 50;

export const waitShape = z.object({
  branch: z.string().describe('its indexes from the root down; empty for the run as a whole'),
  step: z.string().nullable(),
  why: z.string(),
  until: z.string().nullable().describe('when that ends by itself'),
  job_id: z.string().nullable(),
  step_id: z.string().nullable().describe('what an approval may name'),
});

export type Wait = z.output<typeof waitShape>;

/** Why a run has not ended, in sentences. */
export async function explainRun(ledger: Ledger, run: Run): Promise<Wait[]> {
  if (run.completedAt !== null) return [];
  if (run.dueAt !== null)
    return [makeWait(undefined, 'its time has not come', { until: run.dueAt })];
  if (run.status === 'queued') {
    return [makeWait(undefined, 'its turn among the runs of its concurrency key has not come')];
  }
  const open = await ledger.runs.listBranches({ runId: run.id, open: true, limit: TOLD_MAX + 1 });
  // Who waits for its own branches says nothing that they do not say themselves.
  const told = open.filter((branch) => !isOpenBlock(branch) || branch.pending > TOLD_MAX);
  const tries = await triesOf(ledger, run, told);
  const waits = await Promise.all(
    told.slice(0, TOLD_MAX).map((branch) => explain(ledger, branch, tries)),
  );
  if (open.length <= TOLD_MAX) return waits;
  return [...waits, makeWait(undefined, `more than ${TOLD_MAX} branches are open`)];
}

async function explain(
  ledger: Ledger,
  branch: Branch,
  tries: ReadonlyMap<string, Advancement>,
): Promise<Wait> {
  if (branch.status === 'running') {
    const job = branch.jobId === null ? undefined : await ledger.jobs.find(branch.jobId);
    return explainJob(branch, job);
  }
  if (branch.status === 'advancing' && branch.dueAt?.startsWith(HELD_DAY) === true) {
    return makeWait(branch, 'as many of its block are under way as may be');
  }
  if (branch.status === 'advancing') {
    const error = tries.get(branch.id)?.error ?? null;
    const why = error === null ? 'it is being moved on' : `moving it on failed: ${error}`;
    return makeWait(branch, why, { until: branch.dueAt });
  }
  if (isOpenBlock(branch)) {
    return makeWait(branch, `${branch.pending} of its ${branch.width} branches have not ended`);
  }
  const of = { runId: branch.runId, branchId: branch.id };
  const [step] = await ledger.runs.listSteps({ ...of, status: 'waiting', limit: 1 });
  return explainPause(branch, step);
}

function explainPause(branch: Branch, step: Step | undefined): Wait {
  // A branch may be due before its wait ends, only to look for its signal.
  const until = step === undefined ? branch.dueAt : step.dueAt;
  const more = { until, stepId: step?.id ?? null };
  if (step?.kind === 'approve') {
    const question = step.note === null ? '' : `: ${step.note}`;
    return makeWait(branch, `somebody has to approve or reject it${question}`, more);
  }
  if (branch.waitsFor !== null) return makeWait(branch, `it waits for ${branch.waitsFor}`, more);
  return makeWait(branch, 'its time has not come', more);
}

function explainJob(branch: Branch, job: Job | undefined): Wait {
  if (job === undefined) return makeWait(branch, 'its job is not on the ledger any more');
  return makeWait(branch, sayWait(job), { until: job.nextRetryAt, jobId: job.id });
}

/** Why a job has not ended, in a sentence. */
export function sayWait({ plugin, command, status, nextRetryAt, lastError }: Job): string {
  const name = `${plugin} ${command}`;
  if (status !== 'queued' || nextRetryAt === null) return `${name} ${describeState(status)}`;
  return `${name} will be tried again${lastError === null ? '' : `: ${lastError}`}`;
}

/** The last tries to move branches on, where any branch is waiting for that. */
async function triesOf(
  ledger: Ledger,
  run: Run,
  branches: readonly Branch[],
): Promise<Map<string, Advancement>> {
  if (!branches.some(({ status }) => status === 'advancing')) return new Map();
  const tries = await ledger.runs.listAdvancements(run.id, limits.pageRowsMax);
  const latest = new Map<string, Advancement>();
  for (const one of tries) {
    const other = latest.get(one.branchId);
    if (other === undefined || other.startedAt <= one.startedAt) latest.set(one.branchId, one);
  }
  return latest;
}

function isOpenBlock({ status, width, pending }: Branch): boolean {
  return status === 'waiting' && width > 0 && pending > 0;
}

interface More {
  readonly until?: string | null;
  readonly jobId?: string | null;
  readonly stepId?: string | null;
}

function makeWait(branch: Branch | undefined, why: string, more: More = {}): Wait {
  return {
    branch: branch?.path ?? '',
    step: branch?.node ?? null,
    why,
    until: more.until ?? null,
    job_id: more.jobId ?? null,
    step_id: more.stepId ?? null,
  };
}

/** What a whole run waits for, who decided in it, and what can be done with it. */

const waitKinds = ['approval', 'signal', 'time', 'concurrency'] as const;

export const waitingForShape = z
  .object({
    kind: z.enum(waitKinds),
    step: z.string().nullable().describe("the step's id in the pipeline"),
    step_id: z.string().nullable().describe('the row of the step; an approval accepts it'),
    message: z.string().nullable().describe('the question, or the type of the signal'),
    until: z.string().nullable().describe('when the wait ends by itself'),
  })
  .nullable()
  .describe('what the whole run waits for; null while it works or when it has ended');

type WaitingFor = z.output<typeof waitingForShape>;

/** Finds what each of these runs waits for. It costs two statements, whatever the number of runs. */
export async function readWaitingFor(
  ledger: Ledger,
  runs: readonly Run[],
): Promise<ReadonlyMap<string, WaitingFor>> {
  const running = runs.flatMap(({ id, status }) => (status === 'running' ? id : []));
  const questions = running.length === 0 ? [] : await ledger.runs.listQuestions(running);
  const asked = new Set(questions.map(({ runId }) => runId));
  const others = running.filter((id) => !asked.has(id));
  const pauses = others.length === 0 ? [] : await ledger.runs.listPauses(others);
  const steps = new Map([...questions, ...pauses].map((step) => [step.runId, step]));
  return new Map(runs.map((run) => [run.id, describeWaiting(run, steps.get(run.id))]));
}

function describeWaiting(run: Run, step: Step | undefined): WaitingFor {
  if (step !== undefined) {
    const kind = kindOf(step);
    const { node, id, note, dueAt } = step;
    const message = kind === 'signal' ? (note ?? '').slice(SIGNAL_NOTE.length) : note;
    return { kind, step: node, step_id: id, message, until: dueAt };
  }
  if (run.status !== 'queued') return null;
  const none = { step: null, step_id: null };
  if (run.dueAt !== null) return { kind: 'time', ...none, message: null, until: run.dueAt };
  return { kind: 'concurrency', ...none, message: run.concurrencyKey, until: null };
}

/** How the pipeline marks a step that waits for a signal; the type follows. */
const SIGNAL_NOTE = 'for ';

function kindOf({ kind, note }: Step): 'approval' | 'signal' | 'time' {
  if (kind === 'approve') return 'approval';
  return note?.startsWith(SIGNAL_NOTE) === true ? 'signal' : 'time';
}

/** The question of the list, under the name that older programs read. */
export function formatQuestion(waiting: WaitingFor): string | null {
  if (waiting?.kind !== 'approval') return null;
  return waiting.message === null ? waiting.step : `${waiting.step}: ${waiting.message}`;
}

interface DecisionFields {
  readonly approved: boolean | null;
  readonly approved_by: string | null;
  readonly approval_reason: string | null;
}

const noDecision: DecisionFields = { approved: null, approved_by: null, approval_reason: null };

/** Reads who decided about a step that asked; the name of an actor ends before the first `: `. */
export function readDecision({ kind, status, error, note }: Step): DecisionFields {
  if (kind !== 'approve' || status === 'waiting') return noDecision;
  const match = /^(approved|rejected) by (.+?)(?:: ([\s\S]*))?$/.exec(
    (status === 'failed' ? error : note) ?? '',
  );
  if (match === null) return noDecision;
  const [, verdict, by = null, reason = null] = match;
  return { approved: verdict === 'approved', approved_by: by, approval_reason: reason };
}

export const approvalShape = z.object({
  step: z.string(),
  step_id: z.string(),
  approved: z.boolean(),
  by: z.string().describe('the actor; `deadline` when the time of the step decided'),
  reason: z.string().nullable(),
  at: z.string().nullable(),
});

/** Lists the decisions in a run, in the order of its steps. */
export function listApprovals(steps: readonly Step[]): z.output<typeof approvalShape>[] {
  return steps.flatMap((step) => {
    const { approved, approved_by: by, approval_reason: reason } = readDecision(step);
    if (approved === null || by === null) return [];
    return [{ step: step.node, step_id: step.id, approved, by, reason, at: step.completedAt }];
  });
}

export const runActions = ['approve', 'reject', 'cancel', 'revive'] as const;

/** Lists what would work now, the most useful first. */
export function listRunActions(
  run: Run,
  waiting: WaitingFor,
  revivedAs: string | null,
): (typeof runActions)[number][] {
  if (run.status === 'halted') return revivedAs === null ? ['revive'] : [];
  if (run.completedAt !== null) return [];
  return waiting?.kind === 'approval' ? ['approve', 'reject', 'cancel'] : ['cancel'];
}
