import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { duration, nonBlankText, dueFields, toDue } from '../base/fields.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { formatDuration } from '../base/quantity.ts';
import { TRACE_KEY } from '../base/trace.ts';
import type { Context } from '../operation/context.ts';
import type { RunSubmission } from '../pipeline/run/start.service.ts';
import { admitWaiter } from './completion.service.ts';
import { refuseLoop } from './job.ts';

/** The options of every operation that starts a job or a run. */

export const startFields = {
  context: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('baggage of the new job or run, a JSON object'),
  dedupe_key: nonBlankText().optional().describe('a key; work with the same key runs only once'),
  dedupe_ttl: duration({ maxMs: limits.delayMsMax })
    .optional()
    .describe('how long a success blocks work with the same key; work in progress blocks it too'),
  ...dueFields,
};

interface StartInput {
  readonly context?: Record<string, unknown> | undefined;
  readonly dedupe_key?: string | undefined;
  readonly dedupe_ttl?: number | undefined;
  readonly run_at?: string | undefined;
  readonly delay?: number | undefined;
}

/** Translates the options that starting a job and starting a run have in common. */
export function toStartRequest(
  { engine, principal, submittedBy, subjectId, traceparent }: Context,
  input: StartInput & { readonly payload: Record<string, unknown> },
  isAwaited: boolean,
): Omit<RunSubmission, 'pipeline'> {
  const { payload, context, dedupe_key: dedupeKey, dedupe_ttl: dedupeTtlMs } = input;
  const { cause } = principal;
  if (cause !== undefined) refuseLoop(cause, engine.config.service.maxHops);
  return {
    ...compact({ id: subjectId }),
    payload: payload as JsonObject,
    submittedBy,
    actor: principal.actor,
    ...baggageOf(context as JsonObject | undefined, traceparent),
    ...compact({ dedupeKey, dedupeTtlMs }),
    ...toDue(input),
    isAwaited,
    ...compact({ cause }),
  };
}

/** Adds the caller's trace to the baggage. */
function baggageOf(
  context: JsonObject | undefined,
  traceparent: string | undefined,
): { context?: JsonObject } {
  if (traceparent === undefined) return compact({ context });
  return { context: { [TRACE_KEY]: traceparent, ...context } };
}

/** Returns whether the start is delayed. Callers don't wait for a delayed start by default. */
export function isDelayed({ run_at: at, delay }: StartInput): boolean {
  return at !== undefined || (delay ?? 0) > 0;
}

export function waitField() {
  const longest = formatDuration(limits.timerMsMax);
  return z.union([z.boolean(), duration({ minMs: 0, maxMs: limits.timerMsMax })], {
    error: `must be true, false or a duration of at most ${longest}`,
  });
}

/** Limits how long a caller may wait. API callers wait no longer than the configuration allows. */
export function limitWait({ engine, principal, submittedBy }: Context, ms: number): number {
  // A waiting job keeps its slot. If no slot is free, it would wait for itself.
  if (principal.cause !== undefined && isFull(engine)) return 0;
  return submittedBy === 'api' ? Math.min(ms, engine.config.api.maxSyncTimeoutMs) : ms;
}

interface AwaitedEnd<T> {
  readonly found: T;
  /** It hasn't ended, and it can't continue in this process. */
  readonly isStill: boolean;
}

/**
 * Waits for an end as long as the caller does. In a process that exits with its result, it waits
 * only while the work can continue.
 */
export async function awaitEnd<T>(
  { disconnected, settleLineage }: Context,
  readRoot: () => Promise<{ readonly rootJobId: string } | undefined>,
  wait: (givenUp?: AbortSignal) => Promise<T>,
): Promise<AwaitedEnd<T>> {
  const root = settleLineage === undefined ? undefined : await readRoot();
  if (settleLineage !== undefined && root !== undefined) {
    const over = new AbortController();
    let isStill = false;
    const still = settleLineage(root.rootJobId, over.signal).then(() => {
      isStill = !over.signal.aborted;
      over.abort();
    });
    try {
      const found = await wait(over.signal);
      // The first result may be older than the end of the lineage.
      return { found: isStill ? await wait(over.signal) : found, isStill };
    } finally {
      over.abort();
      await still;
    }
  }
  const hangup = disconnected?.();
  const found = await wait(hangup);
  // An error keeps the idempotency key free: the same request waits again.
  if (hangup?.aborted === true)
    throw new DuctileError('DEADLINE_EXCEEDED', 'the caller disconnected');
  return { found, isStill: false };
}

function isFull(engine: Context['engine']): boolean {
  const { slots, running } = engine.status();
  return running.length >= slots;
}

/**
 * Runs work that makes its caller wait. The number of waiting API callers is limited; further ones
 * are refused before anything is accepted.
 */
export async function withWaiterSlot<T>(context: Context, work: () => Promise<T>): Promise<T> {
  const { engine, submittedBy } = context;
  if (submittedBy !== 'api') return work();
  const leave = admitWaiter(engine);
  if (leave === undefined) {
    const { maxConcurrentSync } = engine.config.api;
    const message = `${maxConcurrentSync} requests already wait for the end of their job`;
    throw new DuctileError('BUSY', message, { place: 'api.max_concurrent_sync' });
  }
  try {
    return await work();
  } finally {
    leave();
  }
}
