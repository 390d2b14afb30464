import type { BaggageRule } from './baggage.ts';
import type { Condition } from './condition.ts';
import type { OnError } from './graph.ts';
import type { Template } from './template.ts';

/** A step as it is written, each value read on its own. */
export interface ParsedStep {
  readonly id?: string | undefined;
  readonly uses?: string | undefined;
  readonly call?: string | undefined;
  readonly steps?: readonly ParsedStep[] | undefined;
  readonly split?: readonly ParsedStep[] | undefined;
  readonly foreach?: Template | undefined;
  readonly as?: string | undefined;
  readonly concurrency?: number | undefined;
  readonly max_fanout?: number | undefined;
  readonly switch?: Template | undefined;
  readonly cases?: ParsedCases | undefined;
  readonly otherwise?: readonly ParsedStep[] | undefined;
  readonly approve?: ParsedApprove | undefined;
  readonly wait?: ParsedWait | undefined;
  readonly if?: Condition | undefined;
  readonly with?: Readonly<Record<string, Template>> | undefined;
  readonly baggage?: BaggageRule | undefined;
  readonly dependency?: Template | undefined;
  readonly retry?: ParsedRetry | undefined;
  readonly timeout?: number | undefined;
  readonly on_error?: OnError | undefined;
}

export interface ParsedRetry {
  readonly max_attempts?: number | undefined;
  readonly backoff_base?: number | undefined;
}

export type ParsedCases =
  | Readonly<Record<string, readonly ParsedStep[]>>
  | readonly { readonly if: Condition; readonly steps: readonly ParsedStep[] }[];

export interface ParsedApprove {
  readonly message?: Template | undefined;
  readonly on_timeout?: 'halt' | 'approve' | 'reject' | undefined;
}

export interface ParsedWait {
  readonly delay?: number | undefined;
  readonly until?: Template | undefined;
  readonly signal?: string | undefined;
  readonly from?: string | undefined;
  readonly if?: Condition | undefined;
  readonly since?: 'run' | 'now' | undefined;
}

/** How many runs at once; of all, or of each key. */
export type ParsedConcurrency = number | { readonly key: Template; readonly limit: number };
