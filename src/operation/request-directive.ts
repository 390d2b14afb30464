import { DuctileError, type ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { isFinal, type Directive } from '../directive/directive.ts';
import type { DirectiveResult } from '../directive/result.service.ts';
import { refuseDecision, refuseLoop } from '../job/job.ts';
import type { DirectiveRequest } from '../directive/define.service.ts';
import type { Context } from './context.ts';
import { refuseDeniedDirective } from './denied-commands.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Engine } from '../engine/engine.ts';
import type { Principal } from '../access/tokens.service.ts';
import { allows, createOperatorError } from '../access/scopes.ts';
import { isAtLeast, withArticle } from '../base/roles.ts';

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
  {
    mayWait = false,
    ...more
  }: Pick<DirectiveRequest, 'secret'> & { readonly mayWait?: boolean } = {},
): Promise<DirectiveResult & { readonly id: string; readonly result: JsonObject }> {
  const { subjectId } = context;
  const result = await requestByName(context, {
    type,
    params,
    ...more,
    // A repeated request with the same key is the same directive.
    ...(subjectId === undefined ? {} : { idempotencyKey: `request:${subjectId}` }),
  });
  const id = result.id ?? '';
  const isEnough = result.status === 'completed' || (mayWait && result.awaitingApproval);
  if (isEnough) return { ...result, id, result: result.result ?? {} };
  const state = result.awaitingApproval ? 'waiting for approval' : result.status;
  const message = result.error ?? `the directive ${id} is ${state}`;
  throw new DuctileError(codeOf(result), message, {
    details: { directive_id: id, directive_status: result.status },
  });
}

/** Returns the error code of a directive that isn't completed, even if it only waits or still runs. */
function codeOf({ status, errorCode, awaitingApproval }: DirectiveResult): ErrorCode {
  if (isFinal(status)) return errorCode ?? 'DIRECTIVE_FAILED';
  return awaitingApproval ? 'APPROVAL_NEEDED' : 'BUSY';
}

/** Describes what a directive would do. */
export async function planDirective(
  context: Context,
  type: string,
  params: object,
  more: Pick<DirectiveRequest, 'secret'> = {},
): Promise<string[]> {
  return [...(await requestByName(context, { type, params, dryRun: true, ...more })).plan];
}

/** Requests a directive for an operation whose callers don't know `params`, so errors don't name it. */
async function requestByName(
  ...request: Parameters<typeof requestDirective>
): Promise<DirectiveResult> {
  try {
    return await requestDirective(...request);
  } catch (thrown) {
    const isAboutParams =
      thrown instanceof DuctileError && thrown.place?.startsWith(PARAMS) === true;
    if (!isAboutParams) throw thrown;
    const { code, message, hint, details = {}, place = '' } = thrown;
    const rest = { hint, details, place: place.slice(PARAMS.length), cause: thrown };
    throw new DuctileError(code, message, rest);
  }
}

const PARAMS = 'params.';

/** Requests a directive and returns its result as it is. */
export async function requestDirective(
  context: Context,
  request: Omit<DirectiveRequest, 'actor' | 'actorRole' | 'params'> & { readonly params: object },
): Promise<DirectiveResult> {
  await requireRights(context, request.type, request.params);
  await refuseDeniedDirective(context, request.type, request.params);
  const { engine, principal } = context;
  const known = engine.directives.types.find(({ type }) => type === request.type);
  if (known?.isDecision === true) refuseDecision(principal, 'a step that waits');
  if (known?.startsWork === true) refuseLoop(principal.cause, engine.config.service.maxHops);
  const { actor, role, cause } = principal;
  const chain = cause && { correlationId: cause.rootJobId, causationId: cause.jobId };
  // A handler of lifecycle signals must not trigger itself.
  const isQuiet = cause?.runtimeCaused === true;
  return await engine.direct({ ...request, ...chain, isQuiet, actor, actorRole: role });
}

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
    throw new DuctileError('FORBIDDEN', `${principal.actor} may no longer request ${type}`, {
      details: { scope },
    });
  }
  const context = { engine, principal, submittedBy: 'directive' } as const;
  const params = parseJson(text) as object;
  await requireRights(context, type, params);
  await engine.directives.requireRole(type, params, principal.role);
  await refuseDeniedDirective(context, type, params);
}

type Caller = Pick<Context, 'engine' | 'principal'>;

/** Refuses a caller who lacks what the directive requires besides a scope. */
async function requireRights(
  { engine, principal }: Caller,
  type: string,
  params: object,
): Promise<void> {
  const known = engine.directives.types.find((one) => one.type === type);
  if (known?.isForRoot === true && principal.tenant !== undefined) throw createOperatorError();
  const least = known?.role;
  if (least !== undefined && !isAtLeast(principal.role, least)) {
    throw new DuctileError('FORBIDDEN', `${type} requires ${withArticle(least)}`, {
      hint: `Use a token whose role is ${least}.`,
    });
  }
  if (principal.role !== 'owner') await engine.directives.authorize(type, params, principal);
}
