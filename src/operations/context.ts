import type { Engine } from '../engine/engine.ts';
import type { SubmittedBy } from '../job/job.ts';

/** On whose behalf an operation runs, and on what. */
export interface Context {
  readonly engine: Engine;
  /** Who exactly, such as `cli:ann`. */
  readonly actor: string;
  readonly submittedBy: SubmittedBy;
}
