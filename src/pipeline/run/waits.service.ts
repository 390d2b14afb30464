import * as z from 'zod';
import { limits } from '../../base/limits.ts';
import type { Job } from '../../job/job.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { DELAYED_DAY, describeState, type Step, type Run, type Branch } from './run.ts';
import type { Advancement } from './types.ts';

/** The most branches with a reason of their own. Of more branches, only the fact is reported. */
const EXPLAINED_MAX = 50;

export const waitShape = z.object({
  branch: z.string().describe('its indexes from the root down; empty for the whole run'),
  step: z.string().nullable(),
  why: z.string(),
  until: z.string().nullable().describe('when the wait ends by itself'),
  job_id: z.string().nullable(),
  step_id: z.string().nullable().describe('the id of the waiting step; an approval accepts it'),
});

export type Wait = z.output<typeof waitShape>;

/** Explains why a run has not ended. */
export async function explainRun(ledger: Ledger, run: Run): Promise<Wait[]> {
  if (run.completedAt !== null) return [];
  if (run.dueAt !== null)
    return [createWait(undefined, 'it starts at a later time', { until: run.dueAt })];
  if (run.status === 'queued') {
    return [createWait(undefined, 'other runs with its concurrency key come first')];
  }
  const open = await ledger.runs.listBranches({
    runId: run.id,
    open: true,
    limit: EXPLAINED_MAX + 1,
  });
  // A parent is left out, because its branches explain the wait, unless there are too many of them.
  const explained = open.filter((branch) => !isOpenBlock(branch) || branch.pending > EXPLAINED_MAX);
  const latest = await readLatestAdvancements(ledger, run, explained);
  const waits = await Promise.all(
    explained.slice(0, EXPLAINED_MAX).map((branch) => explainBranch(ledger, branch, latest)),
  );
  if (open.length <= EXPLAINED_MAX) return waits;
  return [...waits, createWait(undefined, `more than ${EXPLAINED_MAX} branches are open`)];
}

async function explainBranch(
  ledger: Ledger,
  branch: Branch,
  latest: ReadonlyMap<string, Advancement>,
): Promise<Wait> {
  if (branch.status === 'running') {
    const job = branch.jobId === null ? undefined : await ledger.jobs.find(branch.jobId);
    return explainJob(branch, job);
  }
  if (branch.status === 'advancing' && branch.dueAt?.startsWith(DELAYED_DAY) === true) {
    return createWait(branch, 'the concurrency limit of its block is reached');
  }
  if (branch.status === 'advancing') {
    const error = latest.get(branch.id)?.error ?? null;
    const why = error === null ? 'it is being advanced' : `advancing it failed: ${error}`;
    return createWait(branch, why, { until: branch.dueAt });
  }
  if (isOpenBlock(branch)) {
    return createWait(branch, `${branch.pending} of its ${branch.width} branches have not ended`);
  }
  const { runId, id: branchId } = branch;
  const [step] = await ledger.runs.listSteps({ runId, branchId, status: 'waiting', limit: 1 });
  return explainPause(branch, step);
}

function explainPause(branch: Branch, step: Step | undefined): Wait {
  // A branch can be due before its wait ends, to search for its signal.
  const until = step === undefined ? branch.dueAt : step.dueAt;
  const details = { until, stepId: step?.id ?? null };
  if (step?.kind === 'approve') {
    const question = step.note === null ? '' : `: ${step.note}`;
    return createWait(branch, `it waits for approval${question}`, details);
  }
  if (branch.waitsFor !== null)
    return createWait(branch, `it waits for the signal ${branch.waitsFor}`, details);
  return createWait(branch, 'it waits until a set time', details);
}

function explainJob(branch: Branch, job: Job | undefined): Wait {
  if (job === undefined) return createWait(branch, 'its job is no longer in the database');
  return createWait(branch, describeJobWait(job), { until: job.nextRetryAt, jobId: job.id });
}

/** Describes why a job has not ended. */
function describeJobWait({ plugin, command, status, nextRetryAt, lastError }: Job): string {
  const name = `${plugin} ${command}`;
  if (status !== 'queued' || nextRetryAt === null) return `${name} ${describeState(status)}`;
  return `${name} will be retried${lastError === null ? '' : `: ${lastError}`}`;
}

/** Reads the latest advancement of each branch, if any branch is being advanced. */
async function readLatestAdvancements(
  ledger: Ledger,
  run: Run,
  branches: readonly Branch[],
): Promise<Map<string, Advancement>> {
  if (!branches.some(({ status }) => status === 'advancing')) return new Map();
  const latest = new Map<string, Advancement>();
  for (const advancement of await ledger.runs.listAdvancements(run.id, limits.pageRowsMax)) {
    const other = latest.get(advancement.branchId);
    if (other !== undefined && other.startedAt > advancement.startedAt) continue;
    latest.set(advancement.branchId, advancement);
  }
  return latest;
}

function isOpenBlock({ status, width, pending }: Branch): boolean {
  return status === 'waiting' && width > 0 && pending > 0;
}

interface WaitDetails {
  readonly until?: string | null;
  readonly jobId?: string | null;
  readonly stepId?: string | null;
}

function createWait(branch: Branch | undefined, why: string, details: WaitDetails = {}): Wait {
  return {
    branch: branch?.path ?? '',
    step: branch?.node ?? null,
    why,
    until: details.until ?? null,
    job_id: details.jobId ?? null,
    step_id: details.stepId ?? null,
  };
}

const waitKinds = ['approval', 'signal', 'time', 'concurrency'] as const;

export const waitingForShape = z
  .object({
    kind: z.enum(waitKinds),
    step: z.string().nullable().describe("the step's id in the pipeline"),
    step_id: z.string().nullable().describe('the id of the waiting step; an approval accepts it'),
    message: z.string().nullable().describe('the question, or the type of the signal'),
    until: z.string().nullable().describe('when the wait ends by itself'),
  })
  .nullable()
  .describe('what the whole run waits for; null while it works or when it has ended');

type WaitingFor = z.output<typeof waitingForShape>;

/** Reads what each of these runs waits for, with at most two statements. */
export async function readWaitingFor(
  ledger: Ledger,
  runs: readonly Run[],
): Promise<ReadonlyMap<string, WaitingFor>> {
  const running = runs.flatMap(({ id, status }) => (status === 'running' ? id : []));
  const approvals = running.length === 0 ? [] : await ledger.runs.listApprovalSteps(running);
  const hasApproval = new Set(approvals.map(({ runId }) => runId));
  const others = running.filter((id) => !hasApproval.has(id));
  const waits = others.length === 0 ? [] : await ledger.runs.listWaitingSteps(others);
  const steps = new Map([...approvals, ...waits].map((step) => [step.runId, step]));
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

/** The prefix of the note of a step that waits for a signal. The type follows. */
const SIGNAL_NOTE = 'for ';

function kindOf({ kind, note }: Step): 'approval' | 'signal' | 'time' {
  if (kind === 'approve') return 'approval';
  return note?.startsWith(SIGNAL_NOTE) === true ? 'signal' : 'time';
}

/** Formats the question for the field that older clients read. */
export function formatQuestion(waiting: WaitingFor): string | null {
  if (waiting?.kind !== 'approval') return null;
  return waiting.message === null ? waiting.step : `${waiting.step}: ${waiting.message}`;
}

export const runActions = ['approve', 'reject', 'cancel', 'revive'] as const;

/** Lists the actions that would work now, the most useful first. */
export function listRunActions(
  run: Run,
  waiting: WaitingFor,
  revivedAs: string | null,
): (typeof runActions)[number][] {
  if (run.status === 'halted') return revivedAs === null ? ['revive'] : [];
  if (run.completedAt !== null) return [];
  return waiting?.kind === 'approval' ? ['approve', 'reject', 'cancel'] : ['cancel'];
}

const unfinishedShape = waitShape.extend({
  name: z.string().describe('the pipeline, or the plugin with its command'),
  run_id: z.string().nullable(),
});

/** A job or a run that has not ended, and the reason. */
export type UnfinishedWork = z.output<typeof unfinishedShape>;

/** The fields of a response for work that did not end because no service is running. */
export const unfinishedFields = {
  waiting: z
    .array(unfinishedShape)
    .optional()
    .describe('if no service is running: the work that is left, and why it waits'),
  message: z.string().optional().describe('where to find the result, or when the work continues'),
};

/** Lists the open jobs and runs of a lineage, with the reasons why they have not ended. */
export async function listUnfinished(ledger: Ledger, rootJobId: string): Promise<UnfinishedWork[]> {
  const open = { rootJobId, status: ['queued', 'running'], limit: limits.pageRowsMax } as const;
  const [jobs, runs] = await Promise.all([ledger.jobs.list(open), ledger.runs.list(open)]);
  const waits = runs.map(async (run) =>
    (await explainRun(ledger, run)).map((wait) => ({
      ...wait,
      name: run.pipeline,
      run_id: run.id,
    })),
  );
  // The run explains the jobs of its steps.
  return [
    ...jobs.filter(({ runId }) => runId === null).map(toUnfinished),
    ...(await Promise.all(waits)).flat(),
  ];
}

function toUnfinished(job: Job): UnfinishedWork {
  const name = `${job.plugin} ${job.command}`;
  const noRun = { branch: '', step: null, step_id: null, run_id: null };
  return { ...noRun, name, why: describeJobWait(job), until: job.nextRetryAt, job_id: job.id };
}
