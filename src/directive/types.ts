import type { Timestamp } from '../base/clock.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { Directive, DirectiveStatus } from './directive.ts';

/** The reasons why a directive doesn't start with its request. */
export interface DirectiveWait {
  readonly forApproval: boolean;
  readonly due?: { readonly at: Timestamp } | { readonly inMs: number };
}

/** The directive that copies a ledger, and its result as JSON text. */
export interface CopyDirective {
  readonly id: string;
  readonly result: string;
}

/** `repeated` and `mismatch`: the key belongs to an earlier request, and nothing was written. */
export interface DirectiveInsertResult {
  readonly directive: Directive;
  readonly verdict: 'recorded' | 'repeated' | 'mismatch';
}

export type DirectiveEnd =
  | { readonly status: 'completed'; readonly result: JsonObject }
  | DirectiveFailure;

export interface DirectiveFailure {
  readonly status: 'failed';
  readonly code: ErrorCode;
  readonly error: string;
  readonly details?: JsonObject;
  readonly result?: JsonObject;
}

export interface DirectiveStatistics {
  readonly requested: number;
  /** Counts by final status. */
  readonly ended: Readonly<Partial<Record<DirectiveStatus, number>>>;
  /** Counted up to the limit of a summary. */
  readonly signals: number;
}

export interface DirectiveFilter {
  /** A prefix of the id. */
  readonly idPrefix?: string;
  readonly type?: string;
  readonly status?: readonly DirectiveStatus[];
  readonly actor?: string;
  readonly target?: string;
  readonly awaitingApproval?: boolean;
  readonly idempotencyKey?: string;
  readonly beforeSeq?: number;
  /** Only executed directives, by time of execution (default: all, by time of the request). */
  readonly isDone?: boolean;
  readonly limit: number;
}

/** `visitMax`: how many rows a page may read. */
export type DirectivePageFilter = { readonly visitMax?: number } & Pick<
  DirectiveFilter,
  'type' | 'status' | 'actor' | 'target' | 'awaitingApproval' | 'beforeSeq' | 'limit'
>;
