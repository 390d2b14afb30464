import { isTerminal, type JobStatus } from '../job/job.ts';

/**
 * Part of the idempotency key of jobs that notify an agent of a delivery. Queries find them by it.
 */
export const AGENT_KEY = ':agent:';

/** The end of the idempotency key of the job or run that a delivery was for. */
export const TARGET_KEY = ':target';

export const SKIPPED_QUIET = 'skipped:quiet_hours';
export const NO_WAKE_HANDLER = 'error:no_wake_handler';
const SUCCESS = 'success';
const NO_RESPONSE = 'error:no_response';
const TIMEOUT = 'error:timeout';
const CANCELLED = 'error:cancelled';
const EXCEPTION = 'error:exception';

/** The result of a delivery. Only agents have more than a status. */
export interface DeliveryOutcome {
  readonly status: string;
  readonly error?: string | null;
  readonly detail?: string | null;
}

/** The result of a delivery to an agent. */
export interface AgentOutcome extends DeliveryOutcome {
  /** A status as the original program names it. `pending` while one of its jobs has not ended. */
  readonly status: string;
  /** The status if it is an error, else null. */
  readonly error: string | null;
  /** Details of an error. */
  readonly detail: string | null;
}

/** A job that notified an agent of a delivery. Retries and replays have jobs of their own. */
export interface AgentJob {
  readonly command: string;
  readonly status: JobStatus;
  readonly lastError: string | null;
  readonly idempotencyKey: string;
}

/** Undefined if the delivery had no agent, or if its jobs were pruned. */
export function findAgentOutcome(
  { verdict, reason }: { readonly verdict: string; readonly reason: string | null },
  jobs: readonly AgentJob[],
  isForAgent: boolean,
): AgentOutcome | undefined {
  if (jobs.length > 0) return judge(lastRound(jobs));
  if (verdict === 'skipped') return { status: reason ?? SKIPPED_QUIET, error: null, detail: null };
  if (verdict === 'failed' && isForAgent) return failed(wordOf(reason) ?? EXCEPTION, reason);
  return undefined;
}

/** Adds an error word to the reason, by which a delivery to an agent is recognized later. */
export function toAgentFailure(reason: string): string {
  return wordOf(reason) === undefined ? `${EXCEPTION}: ${reason}` : reason;
}

/**
 * A single success is enough. A conversation without a response is `error:no_response`,
 * unless all jobs were cancelled.
 */
function judge(jobs: readonly AgentJob[]): AgentOutcome {
  if (!jobs.every(({ status }) => isTerminal(status))) {
    return { status: 'pending', error: null, detail: null };
  }
  if (jobs.some(({ status }) => status === 'succeeded')) {
    return { status: SUCCESS, error: null, detail: null };
  }
  const [first] = jobs;
  const detail = first?.lastError ?? null;
  // The error of an earlier attempt isn't the reason for the end.
  if (jobs.every(({ status }) => status === 'cancelled')) return failed(CANCELLED, detail);
  if (first === undefined || first.command === 'turn') return failed(NO_RESPONSE, detail);
  return failed(wordOf(detail) ?? (first.status === 'timed_out' ? TIMEOUT : EXCEPTION), detail);
}

function failed(word: string, detail: string | null): AgentOutcome {
  return { status: word, error: word, detail };
}

function wordOf(text: string | null): string | undefined {
  return /^error:[\w.-]*\w/.exec(text ?? '')?.[0];
}

/**
 * Returns the jobs of the last replay. A replay has another key before the mark, a retry has the
 * same key. Jobs come in the order of creation, and the last one counts.
 */
function lastRound(jobs: readonly AgentJob[]): AgentJob[] {
  const last = roundOf(jobs.at(-1));
  const round = jobs.filter((job) => roundOf(job) === last);
  return [...new Map(round.map((job) => [job.idempotencyKey, job])).values()];
}

function roundOf(job: AgentJob | undefined): string | undefined {
  return job?.idempotencyKey.split(AGENT_KEY)[0];
}
