import { DuctileError, type ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { isFinal } from '../directive/directive.ts';
import type { DirectAnswer } from '../engine/directive-answers.ts';
import type { DirectRequest } from '../engine/directive-definition.ts';
import type { Context } from './context.ts';
import { refuseDenied } from './denied.ts';
import { refuseLesser } from './least-role.ts';

/** What may be answered to whoever changes something by a directive, whatever it is. */
export const directErrors = ['APPROVAL_NEEDED', 'BUSY', 'DIRECTIVE_FAILED', 'STOPPING'] as const;

/** Changes something on the caller's behalf; what was refused or failed is thrown. */
export async function direct(
  context: Context,
  type: string,
  params: object,
  more: Pick<DirectRequest, 'secret'> = {},
): Promise<DirectAnswer & { readonly id: string; readonly result: JsonObject }> {
  const { subjectId } = context;
  const answer = await askDirective(context, {
    type,
    params,
    ...more,
    // Whoever asks again with the key of a request asks for the same directive.
    ...(subjectId === undefined ? {} : { idempotencyKey: `request:${subjectId}` }),
  });
  const id = answer.id ?? '';
  if (answer.status === 'completed') return { ...answer, id, result: answer.result ?? {} };
  const state = answer.awaitingApproval ? 'waiting for approval' : answer.status;
  const message = answer.error ?? `the directive ${id} is ${state}`;
  throw new DuctileError(codeOf(answer), message, {
    details: { directive_id: id, directive_status: answer.status },
  });
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
  return [...(await askDirective(context, { type, params, dryRun: true })).plan];
}

/** The one way from an operation to a directive; its answer is given as it is. */
export async function askDirective(
  context: Context,
  request: Omit<DirectRequest, 'actor' | 'actorRole' | 'params'> & { readonly params: object },
): Promise<DirectAnswer> {
  await refuseLesser(context, request.type, request.params);
  await refuseDenied(context, request.type, request.params);
  const { actor, role } = context.principal;
  return await context.engine.direct({ ...request, actor, actorRole: role });
}

/** A text that a result is known to hold. */
export function textIn(result: Readonly<JsonObject>, name: string): string {
  const value = result[name];
  if (typeof value !== 'string') throw new Error(`${name} of a directive's result is not text`);
  return value;
}
