import { hash } from 'node:crypto';
import type * as z from 'zod';
import type { StartedCommand } from '../access/scopes.ts';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { toCanonicalJson, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { isAtLeast, type Role } from '../base/roles.ts';
import { describeIssues } from '../config/issues.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { CommitName } from '../ledger/dialect.ts';
import type { DirectiveInsert, DirectiveWork } from '../ledger/directive-work.ts';
import type { FollowRules } from '../pipeline/follow-rules.ts';
import type { Quota } from '../tenant/tenants.ts';
import {
  callerKey,
  nounOf,
  type DirectiveCaller,
  type DirectiveDraft,
  type DirectiveType,
} from './directive.ts';
import type { DirectiveResult } from './result.service.ts';
import type { DirectiveWait } from './types.ts';

export interface DirectiveRequest {
  readonly type: string;
  readonly params: unknown;
  readonly actor: string;
  /** The current role of the caller; undefined for the service itself. */
  readonly actorRole?: Role;
  readonly idempotencyKey?: string;
  readonly dryRun?: boolean;
  /** A value beside the params, because params are recorded. */
  readonly secret?: string;
  /** The earliest start (default: at once). */
  readonly due?: NonNullable<DirectiveWait['due']>;
  /** True if its signals are recorded and start nothing. */
  readonly isQuiet?: boolean;
  readonly correlationId?: string;
  readonly causationId?: string;
}

/**
 * A type of directive and how it is executed. It is a constant, so its functions get the context of
 * the ledger. `plan` throws the reason for a refusal.
 */
export interface DirectiveDefinition<
  Params extends object,
  Context extends LedgerContext,
> extends DirectiveType<Params> {
  /** Adds what the caller left open, at the time of the request, so that the record is complete. */
  resolve?(
    context: Context,
    params: Params,
    request: Pick<DirectiveRequest, 'secret' | 'dryRun' | 'idempotencyKey'>,
  ): Params | Promise<Params>;
  /** Returns the role that these params need beyond the type's own. */
  roleFor?(context: Context, params: Params): Promise<RoleNeed | undefined>;
  /** Throws if a caller who isn't an owner can't request these params, as they were sent. */
  authorize?(context: Context, params: object, caller: DirectiveCaller): void | Promise<void>;
  /** Finds the commands that it would start, some of which the caller's token may deny. */
  findStarted?(
    context: Context,
    params: Params,
  ): readonly StartedCommand[] | Promise<readonly StartedCommand[]>;
  /** Creates a secret for the caller alone, and the params that recognize it later. */
  draw?(): DrawnSecret<Params>;
  /** The schema of the params on record, if `resolve` or `draw` adds to them. */
  readonly recorded?: z.ZodType<Params>;
  /** True if the secret of a repeated request is the one of the recorded directive. */
  isSameSecret?(context: Context, recorded: Params, secret: string | undefined): boolean;
  plan(context: Context, params: Params): string[] | Promise<string[]>;
  /** Returns SQL work, which the ledger executes in the transaction that records it. */
  prepare?(
    context: Context,
    params: Params,
    execution: DirectiveExecution,
  ): PreparedWork | Promise<PreparedWork>;
  /** Executes it in this process while the directive is running, if there is no SQL work. */
  execute?(context: Context, params: Params, execution: DirectiveExecution): Promise<JsonObject>;
  /** Called after the commit of a completed directive, in the process that executed it. */
  after?(context: Context, params: Params, result: JsonObject): void | Promise<void>;
}

/** The role that a request needs because of what it sets. */
export interface RoleNeed {
  readonly role: Role;
  /** The part that needs it, such as a key of a plugin's configuration. */
  readonly what: string;
}

export interface DrawnSecret<Params extends object> {
  readonly params: Partial<Params>;
  /** Values that only the caller sees, once. */
  readonly reveal: JsonObject;
}

/** An execution of a directive by this process. */
export interface DirectiveExecution {
  readonly directiveId: string;
  readonly actor: string;
  /** The progress that another process recorded; null at the first start. */
  readonly progress: JsonObject | null;
  /** The value beside the params of an immediate directive; it isn't stored. */
  readonly secret?: string | undefined;
  /** Requests another directive that this one needs. */
  readonly direct: (request: DirectiveRequest) => Promise<DirectiveResult>;
  /** Shows the caller something that isn't recorded, if they still wait for the result. */
  readonly reveal: (shown: JsonObject) => void;
  /** Aborted when the process stops. */
  readonly signal: AbortSignal;
}

export interface PreparedWork {
  /** Undefined if this process executes the directive. */
  readonly work?: DirectiveWork | undefined;
  /** Names the fault points around the commit (default: `other`). */
  readonly commitName?: CommitName;
  /** Values that only the caller sees; they aren't stored. */
  readonly reveal?: JsonObject;
  /** The number of jobs that it enqueues, which count against the quota. */
  readonly jobs?: number;
  /** Called like the `after` of the definition, and before it, with what only `prepare` knows. */
  readonly after?: () => Promise<void>;
}

/** A definition whose params and context aren't known here. */
export type AnyDirective = DirectiveDefinition<object, LedgerContext>;

export function toLedgerWork({
  work,
  commitName,
}: PreparedWork): Pick<DirectiveInsert, 'work' | 'commitName'> {
  return { work, ...(commitName === undefined ? {} : { commitName }) };
}

/** Calls the ledger with prepared work, within the quota of its jobs. */
export async function admitWork<T>(
  { jobs = 0 }: PreparedWork,
  { within }: Pick<Quota, 'within'>,
  work: () => Promise<T>,
): Promise<T> {
  return jobs === 0 ? await work() : await within({ jobs, signals: 0 }, work);
}

/** Returns the rules for what follows from the signals of a directive. */
export function directiveRulesOf({ generation, tenant }: LedgerContext): FollowRules {
  return { ...generation.rules, tenant: tenant?.slug };
}

/** Parses params by the schema of their type. Errors name the path of the wrong value. */
export function parseParams(
  definition: Pick<DirectiveType<object>, 'params'>,
  raw: unknown,
): object {
  const parsed = definition.params.safeParse(raw);
  if (parsed.success) return parsed.data;
  const where = { value: raw, problems: [], placeOf: () => '' };
  const wording = { whole: 'params' };
  const problems = describeIssues(parsed.error.issues, definition.params, where, wording);
  const message = problems.map(({ key, message: text }) => `${key} ${text}`.trim()).join('; ');
  const place = ['params', problems[0]?.key ?? ''].filter((part) => part !== '').join('.');
  throw new DuctileError('INPUT_INVALID', message, { place });
}

/** Parses params, whether they are as the caller sent them or as they are recorded. */
export function parseAnyParams(definition: AnyDirective, raw: object): object {
  const sent = definition.params.safeParse(raw);
  if (sent.success) return sent.data;
  return parseParams({ params: definition.recorded ?? definition.params }, raw);
}

/** Throws FORBIDDEN if the params need a higher role than the type itself. */
export async function checkRole(
  definition: AnyDirective,
  params: object,
  context: LedgerContext,
  role: Role,
): Promise<void> {
  const need = await definition.roleFor?.(context, params);
  if (need === undefined || isAtLeast(role, need.role)) return;
  const message = `${definition.type} sets ${need.what}, which needs the role ${need.role}`;
  const hint = `Use a token whose role is ${need.role}, or leave the value as it is.`;
  throw new DuctileError('FORBIDDEN', message, { place: need.what, hint });
}

/** Returns a digest of the params as the caller sent them. */
export function digestParams(params: object): string {
  return hash('sha256', toCanonicalJson(params), 'hex');
}

/** Creates the draft of a request. `given` are the params as the caller sent them. */
export function createDraft(
  definition: DirectiveType<object>,
  params: object,
  request: DirectiveRequest & { readonly given: object },
): DirectiveDraft {
  const { actor, actorRole, idempotencyKey, correlationId, causationId, given } = request;
  const { type, scope, isRepeatable } = definition;
  const id = makeId();
  return {
    id,
    type,
    target: `${nounOf(type)}:${definition.target(params)}`,
    params: toCanonicalJson(params),
    askedDigest: digestParams(given),
    actor,
    actorRole: actorRole ?? null,
    scope,
    correlationId: correlationId ?? id,
    causationId: causationId ?? null,
    maxAttempts: isRepeatable === true ? limits.directiveAttemptsMax : 1,
    sameness:
      idempotencyKey === undefined
        ? definition.sameness(params)
        : { key: callerKey(actor, idempotencyKey) },
    plan: '[]',
    signalId: makeId(),
  };
}
