/** What stands for plugins, people and time while a pipeline is tested. */
import * as z from 'zod';
import type { Timestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { describeUnsafeJson, isObject, type Json } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../config/nearest.ts';
import type { Graph, Node } from './language/graph.ts';
import type { Arrival } from './run/transition.ts';
import { addResult } from '../plugin/response.ts';
import type { StepAnswerer, StepQuestion } from './language/simulate.ts';

/** As a plugin answers; or what a person decides, what a signal carries, that nothing came in time. */
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

export type GivenAnswer = z.output<typeof answerShape>;

type Given = ReadonlyMap<string, GivenAnswer | readonly GivenAnswer[]>;

/** Answers under the id of a step or `plugin.command`: one for every time, or a list in turn. */
export function readAnswers(graph: Graph, written: Readonly<Record<string, unknown>>): Given {
  const known = new Set(Object.values(graph.nodes).flatMap(keysOf));
  const given = new Map<string, GivenAnswer | readonly GivenAnswer[]>();
  for (const [key, value] of Object.entries(written)) {
    const place = `responses.${key}`;
    if (!known.has(key)) {
      const message = `${place} is no step of the pipeline that is waited for`;
      throw new DuctileError('INPUT_INVALID', message, {
        place,
        hint: suggest(key, [...known], 'steps'),
      });
    }
    given.set(
      key,
      Array.isArray(value)
        ? value.map((one, index) => readAnswer(one, `${place}[${index}]`))
        : readAnswer(value, place),
    );
  }
  return given;
}

function keysOf(node: Node): string[] {
  if (node.kind === 'task') return [node.id, `${node.plugin}.${node.command}`];
  return node.kind === 'approve' || node.kind === 'wait' ? [node.id] : [];
}

function readAnswer(value: unknown, place: string): GivenAnswer {
  const parsed = answerShape.safeParse(value);
  const unsafe = describeUnsafeJson(value, limits.jsonDepthMax);
  if (parsed.success && unsafe === undefined) return parsed.data;
  const [issue] = parsed.error?.issues ?? [];
  const reason = unsafe ?? `${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim();
  throw new DuctileError('INPUT_INVALID', `${place}: ${reason}`, {
    place,
    hint: 'Write what the plugin would answer, or approved, signal or timeout.',
  });
}

/** Each list is used up in the order of the questions. */
export function makeAnswerer(given: Given, at: Timestamp): StepAnswerer {
  const used = new Map<string, number>();
  return (question) => {
    const key = keysOf(question.node).find((candidate) => given.has(candidate));
    const found = key === undefined ? undefined : given.get(key);
    if (key === undefined || found === undefined) return undefined;
    if (!Array.isArray(found)) return toArrival(question, found as GivenAnswer, key, at);
    const turn = used.get(key) ?? 0;
    used.set(key, turn + 1);
    const answer = (found as readonly GivenAnswer[])[turn];
    return answer === undefined ? undefined : toArrival(question, answer, `${key}[${turn}]`, at);
  };
}

function toArrival(
  { node }: StepQuestion,
  answer: GivenAnswer,
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
  throw new DuctileError('INPUT_INVALID', `${place} is no answer to a step that is ${node.kind}`, {
    place,
    hint: 'A task has result, events or error, an approval approved, a wait signal or timeout.',
  });
}

function toOutcome({ status, error, result, events, timeout }: GivenAnswer): Arrival {
  if (timeout === true) return { kind: 'failed', reason: 'timeout', error: 'timed out' };
  if (status === 'error' || error !== undefined) {
    return { kind: 'failed', reason: 'retries_exhausted', error: error ?? 'failed' };
  }
  const emitted = (events ?? []).map(({ payload }) => ({ payload: (payload ?? {}) as Json }));
  const told = typeof result === 'string' ? addResult(emitted, result) : emitted;
  const payloads = told.map(({ payload }) => payload);
  return { kind: 'done', events: payloads, result: (result ?? 'ok') as Json };
}

/** What a plugin printed, if it is an answer. */
export function fromOutput(stdout: string): Arrival | undefined {
  const parsed = answerShape.loose().safeParse(parseOrNothing(stdout));
  return parsed.success ? toOutcome(parsed.data) : undefined;
}

function parseOrNothing(text: string): unknown {
  try {
    const value: unknown = parseJson(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
