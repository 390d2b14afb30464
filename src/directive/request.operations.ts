import { DuctileError, type ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { isFinal } from './directive.ts';
import type { DirectAnswer } from './directive-result.service.ts';
import { refuseDecision, refuseLoop } from '../job/cause.ts';
import type { DirectRequest } from './define.service.ts';
import type { Context } from '../operation/context.ts';
import { refuseDenied } from '../access/denied-commands.operations.ts';
import { refuseLesser } from '../access/grantable.operations.ts';

/** What may be answered to whoever changes something by a directive, whatever it is. */
export const directErrors = [
  'APPROVAL_NEEDED',
  'BUSY',
  'DIRECTIVE_FAILED',
  'HOPS_EXCEEDED',
  'STOPPING',
] as const;

/** Changes something on the caller's behalf; what was refused or failed is thrown. */
export async function direct(
  context: Context,
  type: string,
  params: object,
  { mayWait = false, ...more }: DirectOptions = {},
): Promise<DirectAnswer & { readonly id: string; readonly result: JsonObject }> {
  const { subjectId } = context;
  const answer = await askInWords(context, {
    type,
    params,
    ...more,
    // Whoever asks again with the key of a request asks for the same directive.
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

export interface DirectOptions extends Pick<DirectRequest, 'secret'> {
  /** Whether the caller gets something even while it waits for approval. */
  readonly mayWait?: boolean;
}

/** While it waits or another host has it under way, nothing may sound as if it had ended. */
function codeOf({ status, errorCode, awaitingApproval }: DirectAnswer): ErrorCode {
  if (isFinal(status)) return errorCode ?? 'DIRECTIVE_FAILED';
  return awaitingApproval ? 'APPROVAL_NEEDED' : 'BUSY';
}

/** What a directive would do, in sentences. */
export async function planDirective(
  context: Context,
  type: string,
  params: object,
): Promise<string[]> {
  return [...(await askInWords(context, { type, params, dryRun: true })).plan];
}

/** Whoever asks by another operation has never heard of params. */
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

/** The one way from an operation to a directive; its answer is given as it is. */
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
  // A handler of the runtime's own signals must not cause another one of them for itself.
  const isQuiet = cause?.runtimeCaused === true;
  return await engine.direct({ ...request, ...chain, isQuiet, actor, actorRole: role });
}

const DECISION = 'run.approve';

/** Directives after which something is run that they name; the last in a chain may not ask for them. */
const startsWork: ReadonlySet<string> = new Set([
  'job.retry',
  'plugin.init',
  'run.retry_from',
  'run.revive',
  'signal.replay',
  'webhook.replay',
  'webhook.test',
]);

/** A text that a result is known to hold. */
export function textIn(result: Readonly<JsonObject>, name: string): string {
  const value = result[name];
  if (typeof value !== 'string') throw new Error(`${name} of a directive's result is not text`);
  return value;
}
