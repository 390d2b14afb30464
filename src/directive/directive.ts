import type { Timestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type * as z from 'zod';
import type { Role } from '../base/roles.ts';

/** The states of a directive. The last three are final. */
export const directiveStatuses = [
  'requested',
  'running',
  'completed',
  'failed',
  'cancelled',
] as const;

export type DirectiveStatus = (typeof directiveStatuses)[number];

export function isFinal(status: DirectiveStatus): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled';
}

/**
 * Decides when two requests are equal. `toggle`: until another directive changes the target, so
 * that pause, resume, pause are three. `latest`: as long as it is the last request for the target,
 * so that upgrades to two versions are two. `each`: never, unless the caller gives a key.
 */
type Sameness = 'toggle' | 'latest' | 'each' | { readonly key: string };

/** A requested change before it is recorded. The caller creates the ids. */
export interface DirectiveDraft {
  readonly id: string;
  /** `<noun>.<verb>` */
  readonly type: string;
  /**
   * The object of the change, as `<noun>:<which>`. Directives with the same target undo or repeat
   * each other.
   */
  readonly target: string;
  /** Canonical JSON text, so that equal params are equal text. */
  readonly params: string;
  /** SHA-256 of the params as the caller sent them, before anything was resolved. */
  readonly askedDigest?: string;
  readonly actor: string;
  /** The role of the caller, such as `owner`. */
  readonly actorRole: string | null;
  /** The scope that its type requires. */
  readonly scope: string;
  readonly sameness: Sameness;
  /** The id of the context (default: its own id). */
  readonly correlationId: string;
  /** The signal or directive that caused it. */
  readonly causationId: string | null;
  /** The most starts, if processes die during execution. */
  readonly maxAttempts: number;
  /** JSON text: the planned changes, in sentences. */
  readonly plan: string;
  /** The id of the lifecycle signal of its end. */
  readonly signalId: string;
}

export interface Directive {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
  readonly target: string;
  readonly params: string;
  /** Null for directives of older versions. */
  readonly askedDigest: string | null;
  readonly actor: string;
  readonly actorRole: string | null;
  readonly scope: string;
  readonly correlationId: string;
  readonly causationId: string | null;
  readonly idempotencyKey: string;
  readonly status: DirectiveStatus;
  readonly plan: string;
  /** JSON text. */
  readonly result: string | null;
  readonly errorCode: string | null;
  readonly error: string | null;
  /** JSON text: the location and other details of the error. */
  readonly errorDetails: string;
  readonly awaitingApproval: boolean;
  readonly approvedBy: string | null;
  readonly approvedAt: Timestamp | null;
  readonly cancelledBy: string | null;
  /** The earliest start; null if it started at the request. */
  readonly runAt: Timestamp | null;
  /** JSON text: the progress, stored with each step, so that another process can continue. */
  readonly progress: string | null;
  /** The number of starts. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The process that executes it, or that got the request while it waits. */
  readonly processId: string;
  readonly signalId: string;
  readonly requestedAt: Timestamp;
  readonly startedAt: Timestamp | null;
  readonly completedAt: Timestamp | null;
}

/** Compares a request with an earlier directive under the same key. */
export function isSameRequest(
  earlier: Pick<Directive, 'type' | 'params' | 'askedDigest'>,
  draft: Pick<DirectiveDraft, 'type' | 'params' | 'askedDigest'>,
): boolean {
  if (earlier.type !== draft.type) return false;
  if (earlier.askedDigest === null || draft.askedDigest === undefined)
    return earlier.params === draft.params;
  if (earlier.askedDigest !== draft.askedDigest) return false;
  // A secret isn't part of the params; only its fingerprint is recorded.
  return fingerprintIn(earlier.params) === fingerprintIn(draft.params);
}

function fingerprintIn(params: string): unknown {
  return (parseJson(params) as JsonObject)['fingerprint'];
}

/** True if the request repeats the last one for the target. */
export function isLatest(last: Directive, draft: Pick<DirectiveDraft, 'type' | 'params'>): boolean {
  const isOver = last.status === 'failed' || last.status === 'cancelled';
  return !isOver && last.type === draft.type && last.params === draft.params;
}

/** The prefix of keys that callers can't choose. */
const AUTOMATIC = 'auto:';

export function isKeyTaken(key: string): boolean {
  return key.startsWith(AUTOMATIC);
}

/** Makes the key of a request without one: intent, target and generation. */
export function automaticKey(type: string, target: string, generation: string): string {
  return `${AUTOMATIC}${type}:${target}:${generation}`;
}

/** Makes the stored form of a caller's key: keys of different callers are independent. */
export function callerKey(actor: string, key: string): string {
  return `${actor} ${key}`;
}

/** Returns the key as its caller knows it. */
export function shownKey({ actor, idempotencyKey }: Directive): string {
  const own = callerKey(actor, '');
  return idempotencyKey.startsWith(own) ? idempotencyKey.slice(own.length) : idempotencyKey;
}

/** The rights of a caller who requests a directive. */
export interface DirectiveCaller {
  readonly role: Role;
  readonly scopes: readonly string[];
}

/** The static definition of a type of directive. */
export interface DirectiveType<Params extends object = JsonObject> {
  /** `<noun>.<verb>` */
  readonly type: string;
  readonly summary: string;
  /** The required scope. */
  readonly scope: string;
  /** The required role (default: none, scopes alone decide). */
  readonly role?: Role;
  readonly params: z.ZodType<Params>;
  /** True if it concerns all ledgers, so that tokens of tenants can't request it. */
  readonly isForRoot?: boolean;
  /** `root`: only the root ledger has this type, because it changes what belongs to the process. */
  readonly ledgers?: 'root';
  /** True if handlers of packages can request it: it stops, resumes or ends something. */
  readonly isForHandlers?: boolean;
  /** True if it runs the commands that it names. The last link of a signal chain can't request it. */
  readonly startsWork?: boolean;
  /** True if only a person decides it, never a job. */
  readonly isDecision?: boolean;
  /** The part that can't be undone, in a sentence; others are undone by their counterpart. */
  readonly lasting?: string;
  /**
   * True if only the process that got the request can do it, or only the caller may see the result.
   * It never waits.
   */
  readonly isImmediate?: boolean;
  /** True if repeating it only does what is left, so that it restarts after a crash. */
  readonly isRepeatable?: boolean;
  /** True if it stores its progress with each step, so that another process continues there. */
  readonly isResumable?: boolean;
  /** Decides whether a request without a key equals an earlier one: see `Sameness`. */
  sameness(params: Params): 'toggle' | 'each' | 'latest';
  /** Returns the id of the changed object; empty if there is only one. */
  target(params: Params): string;
}

export function nounOf(type: string): string {
  return type.slice(0, type.indexOf('.'));
}

/** The moments of a directive; each is reported by a signal. */
export type DirectiveMoment =
  | 'requested'
  | 'approved'
  | 'started'
  | 'completed'
  | 'failed'
  | 'cancelled';
