/** What a whole run waits for, who decided in it, and what can be done with it. */
import * as z from 'zod';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Run, Step } from './run.ts';

export const waitKinds = ['approval', 'signal', 'time', 'concurrency'] as const;

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

export type WaitingFor = z.output<typeof waitingForShape>;

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

export interface DecisionFields {
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
