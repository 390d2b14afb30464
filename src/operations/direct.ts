import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { DirectAnswer } from '../engine/directives.ts';
import type { Context } from './context.ts';

/** Changes something on the caller's behalf; what was refused or failed is thrown. */
export async function direct(
  { engine, principal, subjectId }: Context,
  type: string,
  params: object,
): Promise<DirectAnswer & { readonly id: string; readonly result: JsonObject }> {
  const answer = await engine.direct({
    type,
    params,
    actor: principal.actor,
    // Whoever asks again with the key of a request asks for the same directive.
    ...(subjectId === undefined ? {} : { idempotencyKey: `request:${subjectId}` }),
  });
  const id = answer.id ?? '';
  if (answer.status === 'completed') return { ...answer, id, result: answer.result ?? {} };
  const message = answer.error ?? `the directive ${id} is ${answer.status}`;
  throw new DuctileError(answer.errorCode ?? 'DIRECTIVE_FAILED', message, {
    details: { directive_id: id },
  });
}

/** What a directive would do, in sentences. */
export async function planDirective(
  { engine, principal }: Context,
  type: string,
  params: object,
): Promise<string[]> {
  const request = { type, params, actor: principal.actor, dryRun: true };
  return [...(await engine.direct(request)).plan];
}

/** A text that a result is known to hold. */
export function textIn(result: Readonly<JsonObject>, name: string): string {
  const value = result[name];
  if (typeof value !== 'string') throw new Error(`${name} of a directive's result is not text`);
  return value;
}
