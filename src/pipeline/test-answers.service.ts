import * as z from 'zod';
import type { Timestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { describeUnsafeJson, isObject, type Json } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../base/text.ts';
import { payloadKeyOf } from './run/walk.ts';
import type { Graph, Node } from './language/graph.ts';
import type { Arrival, Branch, Run, Step } from './run/run.ts';
import { haltReasons, type HaltReason } from './run/halt.ts';
import { addResult } from '../plugin/response.ts';
import type { StepAnswerer, StepQuestion } from './language/simulate.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** A response of a plugin, a decision, the payload of a signal, or a timeout. */
const answerShape = z.strictObject({
  status: z.enum(['ok', 'error']).optional(),
  result: z.unknown().optional(),
  events: z
    .array(z.looseObject({ type: z.string().optional(), payload: z.unknown().optional() }))
    .max(limits.eventsPerAttemptMax)
    .optional(),
  error: z.string().optional(),
  retry: z.boolean().optional(),
  state_updates: z.unknown().optional(),
  logs: z.unknown().optional(),
  approved: z.boolean().optional(),
  by: z.string().optional(),
  why: z.string().optional(),
  signal: z.unknown().optional(),
  timeout: z.literal(true).optional(),
});

type StepAnswer = z.output<typeof answerShape>;

type StepAnswers = ReadonlyMap<string, StepAnswer | readonly StepAnswer[]>;

/** Parses answers by step id or `plugin.command`: one for every call, or a list in order. */
export function readAnswers(graph: Graph, written: Readonly<Record<string, unknown>>): StepAnswers {
  const known = new Set(Object.values(graph.nodes).flatMap(keysOf));
  const given = new Map<string, StepAnswer | readonly StepAnswer[]>();
  for (const [key, value] of Object.entries(written)) {
    const place = `responses.${key}`;
    if (!known.has(key)) {
      const message = `${place} is not a step that needs a response`;
      throw new DuctileError('INPUT_INVALID', message, {
        place,
        hint: suggest(key, [...known], 'steps'),
      });
    }
    given.set(
      key,
      Array.isArray(value)
        ? value.map((item, index) => readAnswer(item, `${place}[${index}]`))
        : readAnswer(value, place),
    );
  }
  return given;
}

function keysOf(node: Node): string[] {
  if (node.kind === 'task') return [node.id, `${node.plugin}.${node.command}`];
  return node.kind === 'approve' || node.kind === 'wait' ? [node.id] : [];
}

function readAnswer(value: unknown, place: string): StepAnswer {
  const parsed = answerShape.safeParse(value);
  const unsafe = describeUnsafeJson(value, limits.jsonDepthMax);
  if (parsed.success && unsafe === undefined) return parsed.data;
  const [issue] = parsed.error?.issues ?? [];
  const reason = unsafe ?? `${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim();
  throw new DuctileError('INPUT_INVALID', `${place}: ${reason}`, {
    place,
    hint: 'Write the response of a plugin, or one of approved, signal and timeout.',
  });
}

/** Answers questions with the given answers. Each list is used in order. */
export function makeAnswerer(given: StepAnswers, at: Timestamp): StepAnswerer {
  const used = new Map<string, number>();
  return (question) => {
    const key = keysOf(question.node).find((candidate) => given.has(candidate));
    const found = key === undefined ? undefined : given.get(key);
    if (key === undefined || found === undefined) return undefined;
    if (!Array.isArray(found)) return toArrival(question, found as StepAnswer, key, at);
    const index = used.get(key) ?? 0;
    used.set(key, index + 1);
    const answer = (found as readonly StepAnswer[])[index];
    return answer === undefined ? undefined : toArrival(question, answer, `${key}[${index}]`, at);
  };
}

function toArrival(
  { node }: StepQuestion,
  answer: StepAnswer,
  key: string,
  at: Timestamp,
): Arrival {
  const { approved, by = 'test', why = null, signal, timeout } = answer;
  if (node.kind === 'task' && approved === undefined && signal === undefined) {
    return toOutcome(answer);
  }
  if (node.kind !== 'task' && timeout === true) return { kind: 'due', at };
  if (node.kind === 'approve' && approved !== undefined) {
    return { kind: 'decided', approved, by, why, at };
  }
  if (node.kind === 'wait' && signal !== undefined) {
    return { kind: 'signalled', data: signal as Json, signalId: 'test' };
  }
  const place = `responses.${key}`;
  const message = `${place} is not a response for a step of the kind ${node.kind}`;
  throw new DuctileError('INPUT_INVALID', message, {
    place,
    hint:
      'Use result, events or error for a task, approved for an approval, and signal for a wait. ' +
      'Use timeout for any of them.',
  });
}

function toOutcome({ status, error, result, events, timeout }: StepAnswer): Arrival {
  if (timeout === true) return { kind: 'failed', reason: 'timeout', error: 'timed out' };
  if (status === 'error' || error !== undefined) {
    return { kind: 'failed', reason: 'retries_exhausted', error: error ?? 'failed' };
  }
  const emitted = (events ?? []).map(({ payload }) => ({ payload: (payload ?? {}) as Json }));
  const complete = typeof result === 'string' ? addResult(emitted, result) : emitted;
  const payloads = complete.map(({ payload }) => payload);
  return { kind: 'done', events: payloads, result: (result ?? 'ok') as Json };
}

/** Converts the output of a plugin, if it is a response. */
function fromOutput(stdout: string): Arrival | undefined {
  const parsed = answerShape.loose().safeParse(parseObject(stdout));
  return parsed.success ? toOutcome(parsed.data) : undefined;
}

function parseObject(text: string): unknown {
  try {
    const value: unknown = parseJson(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The number of jobs whose attempts are read at once. */
const JOBS_AT_ONCE = 200;

/** Reads the results of an earlier run. They answer for the same steps on the same branches. */
export async function readRecordedAnswers(
  ledger: Ledger,
  { id: runId }: Run,
): Promise<StepAnswerer> {
  const steps = await readPages((page) => ledger.runs.listSteps({ runId, ...page }));
  const branches = await readPages((page) => ledger.runs.listBranches({ runId, ...page }));
  const byId = new Map(branches.map((branch) => [branch.id, branch]));
  const outputs = await readOutputs(ledger, steps);
  const recorded = new Map<string, Arrival>();
  for (const step of steps) {
    const branch = byId.get(step.branchId);
    if (branch === undefined) continue;
    const arrival = toRecordedArrival(step, outputs.get(step.jobId ?? ''), reasonOf(step, branch));
    if (arrival !== undefined) recorded.set(`${branch.path} ${step.node}`, arrival);
  }
  return ({ node, branch }) => recorded.get(`${branch} ${node.id}`);
}

/** Reads pages up to the size of a simulation. */
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

/** Reads the result of each job's successful attempt. */
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

/** Finds why a step failed: its branch halted there, or continued with the reason in its payload. */
function reasonOf({ node, output }: Step, branch: Branch): HaltReason {
  if (branch.node === node && branch.haltReason !== null) return branch.haltReason;
  const error = valueOf(output, 'error');
  const recorded = isObject(error) ? error['reason'] : undefined;
  return haltReasons.find((reason) => reason === recorded) ?? 'retries_exhausted';
}

function toRecordedArrival(
  step: Step,
  result: string | undefined,
  reason: HaltReason,
): Arrival | undefined {
  if (step.status === 'waiting' || step.status === 'skipped') return undefined;
  if (step.kind === 'approve' || step.kind === 'wait') return toWaitArrival(step, reason);
  if (result !== undefined) return fromOutput(result);
  if (step.jobId === null || step.status !== 'failed') return undefined;
  return { kind: 'failed', reason, error: step.error ?? 'failed' };
}

/** Converts a decision, a signal or the end of a wait. */
function toWaitArrival(step: Step, reason: HaltReason): Arrival {
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
