import { isObject, parseStored, type Json, type JsonObject } from '../base/json.ts';
import { isTerminal } from '../job/state.ts';
import { isRunOver } from '../pipeline/run.ts';
import type { Engine } from './engine.ts';
import type { Taken } from './hooks.ts';

export type Waiter = Pick<Engine, 'config' | 'ledger' | 'waitFor' | 'waitForRun'>;

/**
 * What a delivery came to, as far as whoever sent it is told: how it ended, and its result when that
 * is well. Undefined when it goes on for longer, or nobody is on the line any more.
 */
export async function waitForEnd(
  engine: Waiter,
  { jobId, runId }: Pick<Taken, 'jobId' | 'runId'>,
  askedMs: number,
  gone: AbortSignal | undefined,
): Promise<JsonObject | undefined> {
  const waitMs = Math.min(askedMs, engine.config.api.maxSyncTimeoutMs);
  if (jobId !== undefined) return await jobEnd(engine, jobId, waitMs, gone);
  if (runId === undefined) return undefined;
  const { status, output } = await engine.waitForRun(runId, waitMs, gone);
  if (!isRunOver(status)) return undefined;
  return tell(status, parseStored(output));
}

async function jobEnd(
  engine: Waiter,
  jobId: string,
  waitMs: number,
  gone: AbortSignal | undefined,
): Promise<JsonObject | undefined> {
  const { status } = await engine.waitFor(jobId, waitMs, gone);
  if (!isTerminal(status)) return undefined;
  const attempts = await engine.ledger.attempts([jobId]);
  const answer = parseStored(attempts.at(-1)?.result ?? null);
  // What else a plugin answers, such as its state and its log, is not for whoever sent this.
  return tell(status, isObject(answer) ? (answer['result'] ?? null) : null);
}

/** Why it did not succeed is for the operator. */
function tell(status: string, result: Json): JsonObject {
  return status === 'succeeded' ? { status, result } : { status };
}
