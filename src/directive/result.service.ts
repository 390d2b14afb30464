import * as z from 'zod';
import type { Timestamp } from '../base/clock.ts';
import { formatDuration } from '../base/quantity.ts';
import { DuctileError, type ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import {
  directiveStatuses,
  isFinal,
  isKeyTaken,
  type Directive,
  type DirectiveStatus,
  type DirectiveType,
} from './directive.ts';
import type { DirectiveEnd, DirectiveFailure, DirectiveWait } from './types.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import { findActingPackage } from '../package/package.ts';

/** The result of a request, for the caller. */
export interface DirectiveResult {
  /** Null for a dry run, which writes nothing. */
  readonly id: string | null;
  readonly status: DirectiveStatus;
  readonly plan: readonly string[];
  readonly result: JsonObject | null;
  readonly error: string | null;
  readonly errorCode: ErrorCode | null;
  readonly awaitingApproval: boolean;
  /** The earliest start; null if it started at the request. */
  readonly runAt: Timestamp | null;
  /** True if the same request was made before, and this is its result. */
  readonly repeated: boolean;
}

/** The result of a directive, as operations return it. */
export const directiveResultShape = z.object({
  directive_id: z.string(),
  status: z.enum(directiveStatuses),
  awaiting_approval: z.boolean().describe('true while nothing happens because approval is missing'),
  run_at: z.string().nullable().describe('earliest start; null if it started at once'),
  plan: z.array(z.string()),
  result: z.unknown(),
  error_kind: z.string().nullable().describe('error code'),
  error_message: z.string().nullable(),
  repeated: z.boolean().describe('true if the request was made before; this is its result'),
});

export function showDirectiveResult(
  result: DirectiveResult,
): z.output<typeof directiveResultShape> {
  return {
    directive_id: result.id ?? '',
    status: result.status,
    awaiting_approval: result.awaitingApproval,
    run_at: result.runAt,
    plan: [...result.plan],
    result: result.result,
    error_kind: result.errorCode,
    error_message: result.error,
    repeated: result.repeated,
  };
}

export function checkKey(key: string): void {
  const isBounded = key !== '' && Buffer.byteLength(key) <= limits.dedupeKeyBytesMax;
  if (isBounded && !isKeyTaken(key) && !key.includes('\u0000')) return;
  const size = `1 to ${limits.dedupeKeyBytesMax} bytes`;
  const message = `an idempotency key must have ${size} and must not start with "auto:"`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'idempotency_key' });
}

export function createMismatchError({ id, type }: Directive): DuctileError {
  const message = `the idempotency key was already used for directive ${id} (${type})`;
  return new DuctileError('IDEMPOTENCY_MISMATCH', message, { place: 'idempotency_key' });
}

export function createPlanResult(plan: readonly string[]): DirectiveResult {
  const nothing = { result: null, error: null, errorCode: null };
  const waits = { awaitingApproval: false, runAt: null };
  return { id: null, status: 'requested', plan, ...nothing, ...waits, repeated: false };
}

/** Describes what can't be undone, unless the plan says that nothing would change. */
export function describeLasting(
  { lasting }: Pick<DirectiveType<object>, 'lasting'>,
  plan: readonly string[],
): string[] {
  const isIdle = plan.length === 1 && plan[0]?.endsWith('nothing would change.') === true;
  return lasting === undefined || isIdle ? [] : [lasting];
}

/** Describes what a repeated request would do. */
export function describeRepeat({ id, status }: Directive): string[] {
  return [`The request is already directive ${id}, which is ${status}; nothing would change.`];
}

/** Describes what delays a directive. */
export function describeWait(wait: DirectiveWait | undefined): string[] {
  if (wait === undefined) return [];
  const { forApproval, due } = wait;
  const first = forApproval ? ['It will wait for approval.'] : [];
  if (due === undefined) return first;
  const when = 'at' in due ? `at ${due.at}` : `in ${formatDuration(due.inMs)}`;
  return [...first, `It will start ${when} at the earliest.`];
}

export function toDirectiveResult(directive: Directive, repeated: boolean): DirectiveResult {
  return {
    id: directive.id,
    status: directive.status,
    plan: parseJson(directive.plan) as string[],
    result: readResult(directive),
    error: directive.error,
    errorCode: directive.errorCode as ErrorCode | null,
    awaitingApproval: directive.awaitingApproval && !isFinal(directive.status),
    runAt: directive.runAt,
    repeated,
  };
}

export function readResult({ result }: Directive): JsonObject | null {
  return result === null ? null : (parseJson(result) as JsonObject);
}

export function createNotWaitingError({ id, status, approvedBy }: Directive): DuctileError {
  const isApproved = status === 'requested' && approvedBy !== null;
  const how = isApproved ? `approved by ${approvedBy}` : status;
  return new DuctileError('DIRECTIVE_NOT_WAITING', `directive ${id} is ${how}`, {
    place: id,
    details: { directive_id: id, directive_status: status },
  });
}

/** Converts an error into the end of the directive that it failed. */
export function toFailure({ code, message, place, details }: DuctileError): DirectiveFailure {
  const described: unknown = { ...(place === undefined ? {} : { place }), ...details };
  const text = JSON.stringify(described);
  return {
    status: 'failed',
    code,
    error: message.slice(0, limits.errorCharsMax),
    ...(text.length > limits.errorCharsMax ? {} : { details: parseJson(text) as JsonObject }),
  };
}

export async function requireDirective(
  ledger: LedgerSubset<'directives.find'>,
  id: string,
): Promise<Directive> {
  const directive = await ledger.directives.find(id);
  if (directive !== undefined) return directive;
  throw new DuctileError('DIRECTIVE_NOT_FOUND', `there is no directive ${id}`, { place: id });
}

/** Returns the log fields of the package that the directive changes, or that requested it. */
function packageFields({ type, params, result, actor }: Directive): JsonObject {
  const requester = findActingPackage(actor);
  if (requester !== undefined) return { package_slug: requester };
  if (!type.startsWith('package.')) return {};
  const known = {
    ...(parseJson(params) as JsonObject),
    ...(parseJson(result ?? '{}') as JsonObject),
  };
  const { package_slug: slug, version } = known;
  return {
    ...(typeof slug === 'string' ? { package_slug: slug } : {}),
    ...(typeof version === 'string' ? { package_version: version } : {}),
  };
}

/** Logs the current state of a directive. */
export function logDirective(directive: Directive, log: Log): void {
  const { error, causationId, awaitingApproval, attempt } = directive;
  const fields = {
    directive_id: directive.id,
    type: directive.type,
    target: directive.target,
    actor: directive.actor,
    status: directive.status,
    correlation_id: directive.correlationId,
    ...(causationId === null ? {} : { causation_id: causationId }),
    ...packageFields(directive),
    ...(awaitingApproval ? { awaiting_approval: true } : {}),
    ...(attempt > 1 ? { attempt } : {}),
  };
  if (error === null) log.info('directive', fields);
  else log.warn('directive', { ...fields, error });
}

/** True if the work ended only because the process stops. */
export function isInterrupted(end: DirectiveEnd): boolean {
  return end.status === 'failed' && end.code === 'STOPPING';
}
