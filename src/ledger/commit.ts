import type { Directive } from '../directive/directive.ts';
import type { DirectiveClosing } from './directive-work.ts';
import type { AttemptReport } from '../job/attempt.ts';
import type { Job, JobDraft } from '../job/job.ts';
import type { Ending } from '../job/outcome.ts';
import type {
  ClaimedJob,
  ContextDraft,
  EnqueueResult,
  QueueLimit,
  StateChange,
  SettleVerdict,
} from '../job/types.ts';
import type { JobOutput } from '../pipeline/run/run.ts';
import type { Followers, RunDraft, RunCommitEvents, RunStart } from '../pipeline/run/types.ts';
import type { SignalDraft } from '../signal/signal.ts';

export interface EnqueueBatch {
  /** Refuses the whole batch with TENANT_LIMIT when it doesn't fit. */
  readonly queueLimit?: QueueLimit | undefined;
  readonly jobs: readonly JobDraft[];
  readonly signals?: readonly SignalDraft[];
  readonly contexts?: readonly ContextDraft[];
  readonly runs?: readonly RunDraft[];
}

/** The result for each job and run of a batch, in the order of the batch. */
export interface StartedBatch extends RunCommitEvents {
  readonly jobs: readonly EnqueueResult[];
  readonly runs: readonly RunStart[];
}

/** The end of one attempt, with everything that follows from it. */
export interface Closing {
  readonly job: Job;
  /** The fence: only the claim with this token is closed. Null closes a job that is still queued. */
  readonly claimToken: string | null;
  readonly report: AttemptReport;
  readonly ending: Ending;
  readonly state?: StateChange;
  readonly signals: readonly SignalDraft[];
  readonly jobs: readonly JobDraft[];
  readonly runs?: readonly RunDraft[];
  /** For the branch that waits for the job (default: no events, no result). */
  readonly output?: JobOutput;
  /** Returns the jobs and runs that follow when this end opens or closes the breaker of its command. */
  readonly followBreaker?: (signal: SignalDraft) => Followers;
}

export interface Settlement {
  readonly verdicts: ReadonlyMap<string, SettleVerdict>;
  /** The jobs that the settled closings enqueued. */
  readonly enqueued: readonly EnqueueResult[];
  readonly claimed: readonly ClaimedJob[];
  readonly runEvents: RunCommitEvents;
  /** Returns whether no later commit exists. Undefined if the database has several writers. */
  readonly isLatest?: (() => boolean) | undefined;
}

export interface ReapRequest {
  readonly processId: string;
  /** The minimum age of the last heartbeat, by the database's clock. 0 if the process is proven dead. */
  readonly staleMs: number;
  readonly closings: readonly Closing[];
  readonly directives?: readonly DirectiveClosing[];
  /** Directives that another process restarts. */
  readonly released?: readonly Pick<Directive, 'id' | 'processId'>[];
}
