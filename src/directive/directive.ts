import type { JsonObject } from '../base/json.ts';
import { columnNamed, columnOf, table, type RowOf, type RowOfColumns } from '../ledger/table.ts';
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

/** The columns that a request sets. */
export const directiveDraftColumns = {
  id: 'text',
  /** `<noun>.<verb>` */
  type: 'text',
  /**
   * The object of the change, as `<noun>:<which>`. Directives with the same target undo or repeat
   * each other.
   */
  target: 'text',
  /** Canonical JSON text, so that equal params are equal text. */
  params: 'text',
  actor: 'text',
  /** The role of the caller, such as `owner`. */
  actorRole: 'text?',
  /** The scope that its type requires. */
  scope: 'text',
  /** The id of the context (default: its own id). */
  correlationId: 'text',
  /** The signal or directive that caused it. */
  causationId: 'text?',
  /** The most starts, if processes die during execution. */
  maxAttempts: 'int',
  /** JSON text: the planned changes, in sentences. */
  plan: 'text',
  /** The id of the lifecycle signal of its end. */
  signalId: 'text',
} as const;

export const directiveTable = table('directives', {
  seq: 'int',
  ...directiveDraftColumns,
  /**
   * SHA-256 of the params as the caller sent them, before anything was resolved. Null for directives
   * of older versions.
   */
  askedDigest: 'text?',
  idempotencyKey: 'text',
  status: columnOf<DirectiveStatus>('text'),
  /** JSON text. */
  result: 'text?',
  errorCode: columnNamed('error_kind', 'text?'),
  error: columnNamed('error_message', 'text?'),
  /** JSON text: the location and other details of the error. */
  errorDetails: 'text',
  awaitingApproval: 'flag',
  approvedBy: 'text?',
  approvedAt: 'time?',
  cancelledBy: 'text?',
  /** The earliest start; null if it started at the request. */
  runAt: 'time?',
  /** JSON text: the progress, stored with each step, so that another process can continue. */
  progress: 'text?',
  /** The number of starts. */
  attempt: 'int',
  /** The process that executes it, or that got the request while it waits. */
  processId: 'text',
  requestedAt: 'time',
  startedAt: 'time?',
  completedAt: 'time?',
});

export type Directive = RowOf<typeof directiveTable>;

/** A requested change before it is recorded. The caller creates the ids. */
export interface DirectiveDraft extends RowOfColumns<typeof directiveDraftColumns> {
  readonly askedDigest?: string;
  readonly sameness: Sameness;
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
