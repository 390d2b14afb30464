import type { Timestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';

/** The states of a directive. The last three are final; none of them is ever left again. */
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
 * When two requests are the same one. `toggle`: as long as nothing else was done to the target, so
 * that pause, resume, pause are three. `latest`: as long as it is the last thing that was asked of the
 * target, so that upgrades to two versions are two. `each`: never, unless the caller says so with a key.
 */
export type Sameness = 'toggle' | 'latest' | 'each' | { readonly key: string };

/** What somebody wants changed, before it is on the ledger. The ids are made by whoever asks. */
export interface DirectiveDraft {
  readonly id: string;
  /** `<noun>.<verb>` */
  readonly type: string;
  /** What is changed, as `<noun>:<which>`; directives with the same target undo or repeat each other. */
  readonly target: string;
  /** JSON text in the one spelling of `canonical`, so that equal params are equal text. */
  readonly params: string;
  /** SHA-256 of the params as the caller sent them, before anything was resolved. */
  readonly askedDigest?: string;
  readonly actor: string;
  /** What the caller was when it asked, such as `owner`. */
  readonly actorRole: string | null;
  /** The scope that its type asks of the caller. */
  readonly scope: string;
  readonly sameness: Sameness;
  /** What it belongs to: its own id unless the caller named something. */
  readonly correlationId: string;
  /** The signal or directive that led to it. */
  readonly causationId: string | null;
  /** How often it may be begun, when processes die over it. */
  readonly maxAttempts: number;
  /** JSON text: what it was going to do, in sentences. */
  readonly plan: string;
  /** The id of the lifecycle signal that its end will have. */
  readonly signalId: string;
}

/** A row of directives. */
export interface Directive {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
  readonly target: string;
  readonly params: string;
  /** Null for directives that were recorded before it was kept. */
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
  /** JSON text: the place and whatever else the error told. */
  readonly errorDetails: string;
  readonly awaitingApproval: boolean;
  readonly approvedBy: string | null;
  readonly approvedAt: Timestamp | null;
  readonly cancelledBy: string | null;
  /** Not begun before this; null for what was begun when it was asked for. */
  readonly runAt: Timestamp | null;
  /** JSON text: how far it is, kept with each step so that whoever begins it anew goes on there. */
  readonly progress: string | null;
  /** How often it was begun. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The process that executes it, or did; while it waits, the one that was asked. */
  readonly processId: string;
  readonly signalId: string;
  readonly requestedAt: Timestamp;
  readonly startedAt: Timestamp | null;
  readonly completedAt: Timestamp | null;
}

/** Whether a request with the key of an earlier directive is the same request. */
export function isSameRequest(
  earlier: Pick<Directive, 'type' | 'params' | 'askedDigest'>,
  draft: Pick<DirectiveDraft, 'type' | 'params' | 'askedDigest'>,
): boolean {
  if (earlier.type !== draft.type) return false;
  if (earlier.askedDigest === null || draft.askedDigest === undefined)
    return earlier.params === draft.params;
  if (earlier.askedDigest !== draft.askedDigest) return false;
  // A secret goes beside the params, and only its fingerprint is on record.
  return fingerprintIn(earlier.params) === fingerprintIn(draft.params);
}

function fingerprintIn(params: string): unknown {
  return (parseJson(params) as JsonObject)['fingerprint'];
}

/** Whether asking for something is asking again for what was asked of the same target last. */
export function isLatest(last: Directive, draft: Pick<DirectiveDraft, 'type' | 'params'>): boolean {
  const isOver = last.status === 'failed' || last.status === 'cancelled';
  return !isOver && last.type === draft.type && last.params === draft.params;
}

/** Keys that callers may not choose begin so. */
const AUTOMATIC = 'auto:';

export function isKeyTaken(key: string): boolean {
  return key.startsWith(AUTOMATIC);
}

/** The key of a request whose caller gave none: intent, target and generation. */
export function automaticKey(type: string, target: string, generation: string): string {
  return `${AUTOMATIC}${type}:${target}:${generation}`;
}

/** The key that a caller gave, as it is kept: one caller's keys are nothing to another. */
export function callerKey(actor: string, key: string): string {
  return `${actor} ${key}`;
}

/** The key as its caller knows it. */
export function shownKey({ actor, idempotencyKey }: Directive): string {
  const own = callerKey(actor, '');
  return idempotencyKey.startsWith(own) ? idempotencyKey.slice(own.length) : idempotencyKey;
}
