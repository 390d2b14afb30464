import * as z from 'zod';
import { formatDuration } from '../base/duration.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { duration } from '../base/fields.ts';
import { joinLine } from './waiting-callers.service.ts';
import type { Context } from '../operation/context.ts';

/** Whether to wait for an end, or for how long. */
export function waitField() {
  const longest = formatDuration(limits.timerMsMax);
  return z.union([z.boolean(), duration({ minMs: 0, maxMs: limits.timerMsMax })], {
    error: `must be true, false or a duration of at most ${longest}`,
  });
}

/** How long a caller may stay on the line: callers of the API no longer than its configuration says. */
export function boundWait({ engine, principal, submittedBy }: Context, ms: number): number {
  // A job that waits keeps its slot: with none left, it would wait for itself.
  if (principal.cause !== undefined && isFull(engine)) return 0;
  return submittedBy === 'api' ? Math.min(ms, engine.config.api.maxSyncTimeoutMs) : ms;
}

export interface Waited<T> {
  readonly found: T;
  /** It has not ended, and nothing of it can go on in this process. */
  readonly isStill: boolean;
}

/** Waits for an end as long as the caller does and, where this process ends with its answer, something goes on. */
export async function waitForEnd<T>(
  { hungUp, standstill }: Context,
  readRoot: () => Promise<{ readonly rootJobId: string } | undefined>,
  wait: (givenUp?: AbortSignal) => Promise<T>,
): Promise<Waited<T>> {
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
export async function whileWaiting<T>(context: Context, work: () => Promise<T>): Promise<T> {
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
