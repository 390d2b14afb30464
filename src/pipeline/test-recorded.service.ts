/** What became of the steps of an earlier run, as answers for a test. */
import { isObject, type Json } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { payloadKeyOf } from './language/graph.ts';
import type { Arrival } from './run/transition.ts';
import { haltReasons, type Branch, type HaltReason, type Run, type Step } from './run/run.ts';
import type { StepAnswerer } from './language/simulate.ts';
import { fromOutput } from './test-answers.service.ts';

/** Jobs whose attempts are asked for at once. */
const JOBS_AT_ONCE = 200;

/** Answers a step of the same id on the same branch as it was answered then. */
export async function readRecorded(ledger: Ledger, { id: runId }: Run): Promise<StepAnswerer> {
  const steps = await readPages((page) => ledger.runs.listSteps({ runId, ...page }));
  const branches = await readPages((page) => ledger.runs.listBranches({ runId, ...page }));
  const byId = new Map(branches.map((branch) => [branch.id, branch]));
  const outputs = await readOutputs(ledger, steps);
  const recorded = new Map<string, Arrival>();
  for (const step of steps) {
    const branch = byId.get(step.branchId);
    if (branch === undefined) continue;
    const arrival = toArrival(step, outputs.get(step.jobId ?? ''), reasonOf(step, branch));
    if (arrival !== undefined) recorded.set(`${branch.path} ${step.node}`, arrival);
  }
  return ({ node, branch }) => recorded.get(`${branch} ${node.id}`);
}

/** No more than a test would play. */
async function readPages<T extends { readonly id: string }>(
  read: (page: { readonly afterId?: string; readonly limit: number }) => Promise<T[]>,
): Promise<T[]> {
  const rows: T[] = [];
  while (rows.length < 2 * limits.simulationStepsMax) {
    const last = rows.at(-1);
    const limit = limits.pageRowsMax;
    const page = await read(last === undefined ? { limit } : { limit, afterId: last.id });
    rows.push(...page);
    if (page.length < limit) break;
  }
  return rows;
}

/** What each job printed in the attempt that counted. */
async function readOutputs(ledger: Ledger, steps: readonly Step[]): Promise<Map<string, string>> {
  const ids = steps.flatMap(({ jobId }) => jobId ?? []);
  const outputs = new Map<string, string>();
  for (let at = 0; at < ids.length; at += JOBS_AT_ONCE) {
    for (const { jobId, status, result } of await ledger.attempts.listByJob(
      ids.slice(at, at + JOBS_AT_ONCE),
    )) {
      if (status === 'succeeded' && result !== null) outputs.set(jobId, result);
    }
  }
  return outputs;
}

/** Why the step did not go well: its branch halted there, or went on with the reason. */
function reasonOf({ node, output }: Step, branch: Branch): HaltReason {
  if (branch.node === node && branch.haltReason !== null) return branch.haltReason;
  const error = valueOf(output, 'error');
  const said = isObject(error) ? error['reason'] : undefined;
  return haltReasons.find((reason) => reason === said) ?? 'retries_exhausted';
}

function toArrival(
  step: Step,
  printed: string | undefined,
  reason: HaltReason,
): Arrival | undefined {
  if (step.status === 'waiting' || step.status === 'skipped') return undefined;
  if (step.kind === 'approve' || step.kind === 'wait') return toEvent(step, reason);
  if (printed !== undefined) return fromOutput(printed);
  if (step.jobId === null || step.status !== 'failed') return undefined;
  return { kind: 'failed', reason, error: step.error ?? 'failed' };
}

/** What a person, a signal or the clock did. */
function toEvent(step: Step, reason: HaltReason): Arrival {
  const at = step.completedAt ?? step.startedAt;
  const value = valueOf(step.output, payloadKeyOf(step.node));
  if (step.kind === 'wait') {
    if (step.status !== 'succeeded' || value === undefined) return { kind: 'due', at };
    return { kind: 'signalled', data: value, signalId: 'recorded' };
  }
  if (!isObject(value) && reason !== 'rejected') return { kind: 'due', at };
  const { approved, by, why } = isObject(value) ? value : {};
  return {
    kind: 'decided',
    approved: approved === true,
    by: typeof by === 'string' ? by : 'recorded',
    why: typeof why === 'string' ? why : null,
    at,
  };
}

function valueOf(output: string | null, key: string): Json | undefined {
  const own: unknown = output === null ? undefined : parseJson(output);
  return isObject(own) && Object.hasOwn(own, key) ? own[key] : undefined;
}
