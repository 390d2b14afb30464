import type { EntryPath, PipelineEntry } from './entry.ts';
import type { Target } from './graph.ts';

/** What a pipeline is compiled with. */
export interface Library {
  readonly pipelines: ReadonlyMap<string, PipelineEntry>;
  /** The command that `uses` means, and how often it is tried unless the step says so. */
  readonly resolve: (uses: string) => Resolved | Unresolved;
  /** A hint for a word that is not among the known ones. */
  readonly suggest: (word: string, known: readonly string[], what: string) => string;
}

export type Resolved = Target & { readonly maxAttempts: number | undefined };

export interface Unresolved {
  readonly fault: string;
  readonly hint?: string | undefined;
}

/** What is wrong with a pipeline that has the right form. */
export interface CompileFault {
  readonly path: EntryPath;
  readonly message: string;
  readonly hint?: string | undefined;
}
