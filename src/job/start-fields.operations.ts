/** How work is to be started: once, when, and with which baggage; the same words wherever it is. */
import * as z from 'zod';
import { duration, text } from '../base/fields.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { TRACE_KEY } from '../base/trace.ts';
import { refuseLoop } from './cause.service.ts';
import type { RunSubmission } from '../engine/engine.ts';
import type { Context } from '../operation/context.ts';
import { dueFields, dueOf } from './due.operations.ts';

export const startFields = {
  context: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('baggage for what is started, a JSON object'),
  dedupe_key: text().optional().describe('work with the same key is done once'),
  dedupe_ttl: duration({ maxMs: limits.delayMsMax })
    .optional()
    .describe('how long its success blocks others with the same key; one under way blocks it too'),
  ...dueFields,
};

/** What a caller said of that. */
export interface StartWish {
  readonly context?: Record<string, unknown> | undefined;
  readonly dedupe_key?: string | undefined;
  readonly dedupe_ttl?: number | undefined;
  readonly run_at?: string | undefined;
  readonly delay?: number | undefined;
}

/** What a job and a run have in common, when somebody asks for one. */
export function startOf(
  { engine, principal, submittedBy, subjectId, traceparent }: Context,
  wish: StartWish & { readonly payload: Record<string, unknown> },
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
    ...dueOf(wish),
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
export function isForLater({ run_at: at, delay }: StartWish): boolean {
  return at !== undefined || (delay ?? 0) > 0;
}
