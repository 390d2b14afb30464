import type { Timestamp } from '../base/clock.ts';
import { formatDuration } from '../base/quantity.ts';
import { DuctileError, type ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import {
  isFinal,
  isKeyTaken,
  type Directive,
  type DirectiveStatus,
  type DirectiveType,
} from './directive.ts';
import type { DirectiveFailure, DirectiveWait } from './types.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import { findActingPackage } from '../package/package.ts';

export interface DirectAnswer {
  /** Null for a dry run, which writes nothing. */
  readonly id: string | null;
  readonly status: DirectiveStatus;
  readonly plan: readonly string[];
  readonly result: JsonObject | null;
  readonly error: string | null;
  readonly errorCode: ErrorCode | null;
  readonly awaitingApproval: boolean;
  /** Not begun before this; null for what was begun when it was asked for. */
  readonly runAt: Timestamp | null;
  /** It had been asked for before; this is what became of it then. */
  readonly repeated: boolean;
}

export function checkKey(key: string): void {
  const isBounded = key !== '' && Buffer.byteLength(key) <= limits.dedupeKeyBytesMax;
  if (isBounded && !isKeyTaken(key) && !key.includes('\u0000')) return;
  const message = `an idempotency key has 1 to ${limits.dedupeKeyBytesMax} bytes and begins with no "auto:"`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'idempotency_key' });
}

export function mismatch({ id, type }: Directive): DuctileError {
  const message = `the idempotency key belongs to another request, the ${type} of directive ${id}`;
  return new DuctileError('IDEMPOTENCY_MISMATCH', message, { place: 'idempotency_key' });
}

export function planned(plan: readonly string[]): DirectAnswer {
  const nothing = { result: null, error: null, errorCode: null };
  const waits = { awaitingApproval: false, runAt: null };
  return { id: null, status: 'requested', plan, ...nothing, ...waits, repeated: false };
}

/** What of it cannot be undone, if anything would be done at all. */
export function describeLasting(
  { lasting }: Pick<DirectiveType<object>, 'lasting'>,
  plan: readonly string[],
): string[] {
  const isIdle = plan.length === 1 && plan[0]?.endsWith('nothing would change.') === true;
  return lasting === undefined || isIdle ? [] : [lasting];
}

/** What asking for it again would do. */
export function describeAgain({ id, status }: Directive): string[] {
  return [`It is directive ${id} already, which is ${status}; nothing would change.`];
}

/** What keeps a directive from being done at once, in sentences. */
export function describeWait(wait: DirectiveWait | undefined): string[] {
  if (wait === undefined) return [];
  const { forApproval, due } = wait;
  const first = forApproval ? ['It would wait until somebody approves it.'] : [];
  if (due === undefined) return first;
  const when = 'at' in due ? `before ${due.at}` : `for ${formatDuration(due.inMs)}`;
  return [...first, `It would not be done ${when}.`];
}

export function toAnswer(directive: Directive, repeated: boolean): DirectAnswer {
  return {
    id: directive.id,
    status: directive.status,
    plan: parseJson(directive.plan) as string[],
    result: resultOf(directive),
    error: directive.error,
    errorCode: directive.errorCode as ErrorCode | null,
    awaitingApproval: directive.awaitingApproval && !isFinal(directive.status),
    runAt: directive.runAt,
    repeated,
  };
}

export function resultOf({ result }: Directive): JsonObject | null {
  return result === null ? null : (parseJson(result) as JsonObject);
}

export function notWaiting({ id, status, approvedBy }: Directive): DuctileError {
  const isApproved = status === 'requested' && approvedBy !== null;
  const how = isApproved ? `approved by ${approvedBy}` : status;
  return new DuctileError('DIRECTIVE_NOT_WAITING', `directive ${id} is ${how}`, {
    place: id,
    details: { directive_id: id, directive_status: status },
  });
}

/** How an error is kept with the directive that it ended. */
export function endFailed({ code, message, place, details }: DuctileError): DirectiveFailure {
  const told: unknown = { ...(place === undefined ? {} : { place }), ...details };
  const text = JSON.stringify(told);
  return {
    status: 'failed',
    code,
    error: message.slice(0, limits.errorCharsMax),
    ...(text.length > limits.errorCharsMax ? {} : { details: parseJson(text) as JsonObject }),
  };
}

export async function readDirective(
  ledger: LedgerSubset<'directives.find'>,
  id: string,
): Promise<Directive> {
  const directive = await ledger.directives.find(id);
  if (directive !== undefined) return directive;
  throw new DuctileError('DIRECTIVE_NOT_FOUND', `there is no directive ${id}`, { place: id });
}

/** Of one about a package or asked for by one: which, and of which version once that is known. */
function packageOf({ type, params, result, actor }: Directive): JsonObject {
  const asking = findActingPackage(actor);
  if (asking !== undefined) return { package_slug: asking };
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

/** One line of the log for each thing that becomes of a directive. */
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
    ...packageOf(directive),
    ...(awaitingApproval ? { awaiting_approval: true } : {}),
    ...(attempt > 1 ? { attempt } : {}),
  };
  if (error === null) log.info('directive', fields);
  else log.warn('directive', { ...fields, error });
}
