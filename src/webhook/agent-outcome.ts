import { isTerminal, type JobStatus } from '../job/job.ts';

/** Part of the key of jobs that tell an agent of a delivery, by which they are found again. */
export const AGENT_KEY = ':agent:';

/** How the key of the job or run ends that a delivery was for. */
export const TARGET_KEY = ':target';

export const SKIPPED_QUIET = 'skipped:quiet_hours';
export const NO_WAKE_HANDLER = 'error:no_wake_handler';
const SUCCESS = 'success';
const NO_RESPONSE = 'error:no_response';
const TIMEOUT = 'error:timeout';
const CANCELLED = 'error:cancelled';
const EXCEPTION = 'error:exception';

/** What became of a delivery; only of agents more is told than a word. */
export interface Outcome {
  readonly status: string;
  readonly error?: string | null;
  readonly detail?: string | null;
}

/** What became of a delivery, as far as an agent is concerned. */
export interface AgentOutcome extends Outcome {
  /** A word of document 4; `pending` while any of its jobs has not ended. */
  readonly status: string;
  /** The same word when it is bad news, and none when it is not. */
  readonly error: string | null;
  /** What is known of an error beyond its word. */
  readonly detail: string | null;
}

/** A job that told an agent of a delivery; retries and replays have jobs of their own. */
export interface AgentJob {
  readonly command: string;
  readonly status: JobStatus;
  readonly lastError: string | null;
  readonly idempotencyKey: string;
}

/** Undefined for what had no agent to go to, or whose jobs are on the ledger no more. */
export function outcomeOf(
  { verdict, reason }: { readonly verdict: string; readonly reason: string | null },
  jobs: readonly AgentJob[],
  isForAgent: boolean,
): AgentOutcome | undefined {
  if (jobs.length > 0) return judge(lastRound(jobs));
  if (verdict === 'skipped') return { status: reason ?? SKIPPED_QUIET, error: null, detail: null };
  if (verdict === 'failed' && isForAgent) return failed(wordOf(reason) ?? EXCEPTION, reason);
  return undefined;
}

/** Why an agent was not told, with the word by which it is known later that there was to be one. */
export function withWord(reason: string): string {
  return wordOf(reason) === undefined ? `${EXCEPTION}: ${reason}` : reason;
}

/**
 * One answer is enough; of a conversation nobody answered in, document 4 says just that, unless
 * somebody kept all of them from answering.
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
  // What an earlier attempt said is not why it ended.
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
 * A replay tells the agent anew, under another key before the mark; a retry has the same key. They
 * come in the order in which they were made, and what was made last counts.
 */
function lastRound(jobs: readonly AgentJob[]): AgentJob[] {
  const last = roundOf(jobs.at(-1));
  const round = jobs.filter((job) => roundOf(job) === last);
  return [...new Map(round.map((job) => [job.idempotencyKey, job])).values()];
}

function roundOf(job: AgentJob | undefined): string | undefined {
  return job?.idempotencyKey.split(AGENT_KEY)[0];
}
