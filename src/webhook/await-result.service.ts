import { isObject, parseStoredJson, type Json, type JsonObject } from '../base/json.ts';
import { isTerminal } from '../job/job.ts';
import type { JobEnd } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isRunOver } from '../pipeline/run/run.ts';
import type { Config } from '../config/config.ts';
import type { ExpectedEnd, Completion } from '../job/completion.service.ts';
import type { AcceptedDelivery } from './webhooks.ts';

/** The part of an engine that a delivery needs to wait for its result. */
export interface Waiter extends Completion {
  readonly config: Config;
  readonly ledger: Ledger;
}

/** Somebody who has sent a delivery and stays on the line. */
export interface Caller {
  /** Of the job that the delivery is for, if it is for one. */
  readonly expected: ExpectedEnd;
  readonly waitMs: number;
  readonly gone: AbortSignal | undefined;
}

/**
 * What a delivery came to, as far as whoever sent it is told: how it ended, and its result when that
 * is well. Undefined when it goes on for longer, or nobody is on the line any more.
 */
export async function waitForEnd(
  engine: Waiter,
  { isNew, jobId, runId }: Pick<AcceptedDelivery, 'isNew' | 'jobId' | 'runId'>,
  { expected, waitMs: askedMs, gone }: Caller,
): Promise<JsonObject | undefined> {
  const waitMs = Math.min(askedMs, engine.config.api.maxSyncTimeoutMs);
  if (jobId !== undefined) {
    const end = isNew
      ? await expected.wait(waitMs, gone)
      : await waitForFirst(engine, jobId, waitMs, gone);
    return end && tell(end.status, resultIn(end));
  }
  if (runId === undefined) return undefined;
  const { status, output } = await engine.waitForRun(runId, waitMs, gone);
  if (!isRunOver(status)) return undefined;
  return tell(status, parseStoredJson(output));
}

/** The job of an earlier delivery may have ended long ago, so read it before waiting. */
async function waitForFirst(
  engine: Waiter,
  jobId: string,
  waitMs: number,
  gone: AbortSignal | undefined,
): Promise<JobEnd | undefined> {
  const { status } = await engine.waitFor(jobId, waitMs, gone);
  if (!isTerminal(status)) return undefined;
  const attempts = await engine.ledger.attempts.listByJob([jobId]);
  return { status, result: attempts.at(-1)?.result ?? null };
}

/** What else a plugin answers, such as its state and its log, is not for whoever sent this. */
function resultIn({ result }: JobEnd): Json {
  const answer = parseStoredJson(result);
  return isObject(answer) ? (answer['result'] ?? null) : null;
}

/** Why it did not succeed is for the operator. */
function tell(status: string, result: Json): JsonObject {
  return status === 'succeeded' ? { status, result } : { status };
}
