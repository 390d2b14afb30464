import { DuctileError, type ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { isFinal, type Directive } from './directive.ts';
import type { DirectAnswer } from './directive-result.service.ts';
import { refuseDecision, refuseLoop } from '../job/job.ts';
import type { DirectRequest } from './define.service.ts';
import type { Context } from '../operation/context.ts';
import { refuseDenied } from '../access/denied-commands.operations.ts';
import { refuseLesser } from '../access/grantable.operations.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Engine } from '../engine/engine.ts';
import type { Principal } from '../access/principal.service.ts';
import { allows } from '../access/scopes.ts';

/** Errors that every directive can return. */
export const directErrors = [
  'APPROVAL_NEEDED',
  'BUSY',
  'DIRECTIVE_FAILED',
  'HOPS_EXCEEDED',
  'STOPPING',
] as const;

/**
 * Executes a directive for the caller. Throws refusals and failures. With `mayWait`, the caller gets a result even
 * while the directive waits for approval.
 */
export async function direct(
  context: Context,
  type: string,
  params: object,
  { mayWait = false, ...more }: Pick<DirectRequest, 'secret'> & { readonly mayWait?: boolean } = {},
): Promise<DirectAnswer & { readonly id: string; readonly result: JsonObject }> {
  const { subjectId } = context;
  const answer = await askInWords(context, {
    type,
    params,
    ...more,
    // A repeated request with the same key is the same directive.
    ...(subjectId === undefined ? {} : { idempotencyKey: `request:${subjectId}` }),
  });
  const id = answer.id ?? '';
  const isEnough = answer.status === 'completed' || (mayWait && answer.awaitingApproval);
  if (isEnough) return { ...answer, id, result: answer.result ?? {} };
  const state = answer.awaitingApproval ? 'waiting for approval' : answer.status;
  const message = answer.error ?? `the directive ${id} is ${state}`;
  throw new DuctileError(codeOf(answer), message, {
    details: { directive_id: id, directive_status: answer.status },
  });
}

/** A directive that waits, or runs on another host, must not look completed. */
function codeOf({ status, errorCode, awaitingApproval }: DirectAnswer): ErrorCode {
  if (isFinal(status)) return errorCode ?? 'DIRECTIVE_FAILED';
  return awaitingApproval ? 'APPROVAL_NEEDED' : 'BUSY';
}

/** Describes what a directive would do. */
export async function planDirective(
  context: Context,
  type: string,
  params: object,
): Promise<string[]> {
  return [...(await askInWords(context, { type, params, dryRun: true })).plan];
}

/** Callers of other operations don't know the params, so errors don't name them. */
async function askInWords(...asked: Parameters<typeof askDirective>): Promise<DirectAnswer> {
  try {
    return await askDirective(...asked);
  } catch (thrown) {
    const isAbout = thrown instanceof DuctileError && thrown.place?.startsWith(PARAMS) === true;
    if (!isAbout) throw thrown;
    const { code, message, hint, details = {}, place = '' } = thrown;
    const told = { hint, details, place: place.slice(PARAMS.length), cause: thrown };
    throw new DuctileError(code, message, told);
  }
}

const PARAMS = 'params.';

/** Requests a directive and returns its result as it is. */
export async function askDirective(
  context: Context,
  request: Omit<DirectRequest, 'actor' | 'actorRole' | 'params'> & { readonly params: object },
): Promise<DirectAnswer> {
  await refuseLesser(context, request.type, request.params);
  await refuseDenied(context, request.type, request.params);
  const { engine, principal } = context;
  if (request.type === DECISION) refuseDecision(principal, 'a step that waits');
  if (startsWork.has(request.type)) refuseLoop(principal.cause, engine.config.service.maxHops);
  const { actor, role, cause } = principal;
  const chain = cause && { correlationId: cause.rootJobId, causationId: cause.jobId };
  // A handler of lifecycle signals must not trigger itself.
  const isQuiet = cause?.runtimeCaused === true;
  return await engine.direct({ ...request, ...chain, isQuiet, actor, actorRole: role });
}

const DECISION = 'run.approve';

/**
 * Directives that run the commands that they name. The last link of a signal chain can't request
 * them.
 */
const startsWork: ReadonlySet<string> = new Set([
  'job.retry',
  'plugin.init',
  'run.retry_from',
  'run.revive',
  'signal.replay',
  'webhook.replay',
  'webhook.test',
]);

/** Reads a text from a result. */
export function textIn(result: Readonly<JsonObject>, name: string): string {
  const value = result[name];
  if (typeof value !== 'string') throw new Error(`${name} of a directive's result is not text`);
  return value;
}

/** Refuses a deferred directive if its requester has lost the right in the meantime. */
export async function refuseLate(
  engine: Engine,
  principal: Principal,
  { type, scope, params: text }: Pick<Directive, 'type' | 'scope' | 'params'>,
): Promise<void> {
  if (!allows(principal.scopes, scope)) {
    throw new DuctileError('FORBIDDEN', `${principal.actor} may not do ${type} any more`, {
      details: { scope },
    });
  }
  const context = { engine, principal, submittedBy: 'directive' } as const;
  const params = parseJson(text) as object;
  await refuseLesser(context, type, params);
  await engine.directives.requireRole(type, params, principal.role);
  await refuseDenied(context, type, params);
}
