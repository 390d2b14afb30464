import * as z from 'zod';
import { duration, nonBlankText, moment } from '../base/fields.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { TRACE_KEY } from '../base/trace.ts';
import { refuseLoop } from './cause.ts';
import type { RunSubmission } from '../pipeline/run/start.service.ts';
import type { Submission } from './enqueue.service.ts';
import type { Context } from '../operation/context.ts';
import { DuctileError } from '../base/errors.ts';
import { formatDuration } from '../base/quantity.ts';
import { joinLine } from './completion.service.ts';

/** How work is to be started: once, when, and with which baggage; the same words wherever it is. */

/** The two ways to say that something is for later. */
export const dueFields = {
  run_at: moment().optional().describe('start it at this time, not before'),
  delay: duration({ minMs: 0, maxMs: limits.delayMsMax })
    .optional()
    .describe('start it after this time, not before'),
};

export const startFields = {
  context: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('baggage for what is started, a JSON object'),
  dedupe_key: nonBlankText().optional().describe('work with the same key is done once'),
  dedupe_ttl: duration({ maxMs: limits.delayMsMax })
    .optional()
    .describe('how long its success blocks others with the same key; one under way blocks it too'),
  ...dueFields,
};

/** What a caller said of that. */
interface StartInput {
  readonly context?: Record<string, unknown> | undefined;
  readonly dedupe_key?: string | undefined;
  readonly dedupe_ttl?: number | undefined;
  readonly run_at?: string | undefined;
  readonly delay?: number | undefined;
}

/** What a job and a run have in common, when somebody asks for one. */
export function toStartRequest(
  { engine, principal, submittedBy, subjectId, traceparent }: Context,
  wish: StartInput & { readonly payload: Record<string, unknown> },
  isAwaited: boolean,
): Omit<RunSubmission, 'pipeline'> {
  const { payload, context, dedupe_key: dedupeKey, dedupe_ttl: dedupeTtlMs } = wish;
  const { cause } = principal;
  if (cause !== undefined) refuseLoop(cause, engine.config.service.maxHops);
  return {
    ...(subjectId === undefined ? {} : { id: subjectId }),
    payload: payload as JsonObject,
    submittedBy,
    actor: principal.actor,
    ...baggageOf(context as JsonObject | undefined, traceparent),
    ...(dedupeKey === undefined ? {} : { dedupeKey }),
    ...(dedupeTtlMs === undefined ? {} : { dedupeTtlMs }),
    ...toDue(wish),
    isAwaited,
    ...(cause === undefined ? {} : { cause }),
  };
}

/** The trace that it belongs to is part of what a chain carries. */
function baggageOf(
  context: JsonObject | undefined,
  traceparent: string | undefined,
): { context?: JsonObject } {
  if (traceparent === undefined) return context === undefined ? {} : { context };
  return { context: { [TRACE_KEY]: traceparent, ...context } };
}

/** Nobody stays on the line for it who did not say so. */
export function isDelayed({ run_at: at, delay }: StartInput): boolean {
  return at !== undefined || (delay ?? 0) > 0;
}

export function toDue({
  run_at: at,
  delay: inMs,
}: {
  readonly run_at?: string | undefined;
  readonly delay?: number | undefined;
}): Pick<Submission, 'due'> {
  if (at !== undefined && inMs !== undefined) {
    const message = 'give either run_at or delay, not both';
    throw new DuctileError('INPUT_INVALID', message, { place: 'delay' });
  }
  if (at !== undefined) return { due: { at } };
  return inMs === undefined ? {} : { due: { inMs } };
}

/** Whether to wait for an end, or for how long. */
export function waitField() {
  const longest = formatDuration(limits.timerMsMax);
  return z.union([z.boolean(), duration({ minMs: 0, maxMs: limits.timerMsMax })], {
    error: `must be true, false or a duration of at most ${longest}`,
  });
}

/** How long a caller may stay on the line: callers of the API no longer than its configuration says. */
export function limitWait({ engine, principal, submittedBy }: Context, ms: number): number {
  // A job that waits keeps its slot: with none left, it would wait for itself.
  if (principal.cause !== undefined && isFull(engine)) return 0;
  return submittedBy === 'api' ? Math.min(ms, engine.config.api.maxSyncTimeoutMs) : ms;
}

interface AwaitedEnd<T> {
  readonly found: T;
  /** It has not ended, and nothing of it can go on in this process. */
  readonly isStill: boolean;
}

/** Waits for an end as long as the caller does and, where this process ends with its answer, something goes on. */
export async function awaitEnd<T>(
  { hungUp, standstill }: Context,
  readRoot: () => Promise<{ readonly rootJobId: string } | undefined>,
  wait: (givenUp?: AbortSignal) => Promise<T>,
): Promise<AwaitedEnd<T>> {
  const root = standstill === undefined ? undefined : await readRoot();
  if (standstill !== undefined && root !== undefined) {
    const over = new AbortController();
    let isStill = false;
    const still = standstill(root.rootJobId, over.signal).then(() => {
      isStill = !over.signal.aborted;
      over.abort();
    });
    try {
      const found = await wait(over.signal);
      // It may have been read before what made it stand still.
      return { found: isStill ? await wait(over.signal) : found, isStill };
    } finally {
      over.abort();
      await still;
    }
  }
  const gone = hungUp?.();
  const found = await wait(gone);
  // With an error no answer is kept for its key: who asks again waits for the same.
  if (gone?.aborted === true) throw new DuctileError('DEADLINE_EXCEEDED', 'the caller hung up');
  return { found, isStill: false };
}

function isFull(engine: Context['engine']): boolean {
  const { slots, running } = engine.status();
  return running.length >= slots;
}

/**
 * Does something that makes its caller wait. Of callers of the API only so many may wait at once; the
 * others are refused before anything is accepted.
 */
export async function withWaiterSlot<T>(context: Context, work: () => Promise<T>): Promise<T> {
  const { engine, submittedBy } = context;
  if (submittedBy !== 'api') return work();
  const leave = joinLine(engine);
  if (leave === undefined) {
    const { maxConcurrentSync } = engine.config.api;
    const message = `${maxConcurrentSync} requests wait for the end of their job already`;
    throw new DuctileError('BUSY', message, { place: 'api.max_concurrent_sync' });
  }
  try {
    return await work();
  } finally {
    leave();
  }
}
