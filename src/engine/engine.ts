import type { JsonObject } from '../base/json.ts';
import type { Config } from '../config/config.ts';
import type { Job, SubmittedBy } from '../job/job.ts';
import type { Enqueued, Ledger } from '../ledger/ledger.ts';
import type { Catalog } from '../plugin/catalog.ts';

/** The moving parts of one process, behind one door for the operations. */
export interface Engine {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly ledger: Ledger;
  readonly processId: string;
  /** Accepts one job: committed when it resolves. Unknown plugins and commands are refused. */
  submit(submission: Submission): Promise<Enqueued>;
  /** Resolves with the job when it is terminal, or with its state of then when the time is over. */
  waitFor(jobId: string, timeoutMs: number): Promise<Job>;
  cancel(jobId: string): Promise<Job>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  status(): EngineStatus;
  start(): Promise<void>;
  /** No new claims; running attempts get the shutdown time; what is cut short is released. */
  stop(): Promise<void>;
}

export interface Submission {
  readonly plugin: string;
  readonly command: string;
  readonly payload: JsonObject;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  readonly context?: JsonObject;
  readonly dedupeKey?: string;
}

export interface EngineStatus {
  readonly processId: string;
  readonly state: 'stopped' | 'starting' | 'running' | 'paused' | 'degraded' | 'stopping';
  /** Why it is degraded. */
  readonly detail: string | undefined;
  readonly slots: number;
  readonly running: readonly {
    readonly jobId: string;
    readonly plugin: string;
    readonly command: string;
  }[];
  readonly spawner: 'native' | 'node';
  readonly uptimeMs: number;
  readonly plugins: number;
}
