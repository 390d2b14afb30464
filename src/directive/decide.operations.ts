import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { nonBlankText } from '../base/fields.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Decider } from './approval.ts';
import type { Directive } from './directive.ts';
import { refuseDecision } from '../job/cause.ts';
import { notWaiting } from './directive-result.service.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { refuseDenied } from '../access/denied-commands.operations.ts';
import { answerShape, showAnswer } from './result.service.ts';
import { findDirective } from '../operation/find-by-id.ts';
import { allows } from '../access/scopes.ts';

const input = z.strictObject({
  id: nonBlankText().describe('the id of the directive, or its beginning'),
});
const errors = [
  'DIRECTIVE_NOT_FOUND',
  'DIRECTIVE_NOT_WAITING',
  'FORBIDDEN',
  'INPUT_INVALID',
  'LEDGER_UNAVAILABLE',
] as const;

export const approveDirective = defineOperation({
  name: 'directive.approve',
  summary: 'Let a directive be done that waits for approval.',
  effect: 'write',
  scope: 'directives:rw',
  input,
  output: answerShape,
  errors,
  http: { method: 'POST', path: '/directives/:id/approve', isSecret: true },
  cli: {
    positionals: ['id'],
    examples: ['ductile directive approve 0199a1b2-…', 'ductile directive approve 0199 --dry-run'],
    exitCode: ({ status }) => (status === 'failed' ? 1 : 0),
  },
  async run(context, { id }) {
    const directive = await findApprovable(context, id);
    const by = deciderOf(context);
    return showAnswer(await context.engine.directives.waiting.approve(directive.id, by));
  },
  async plan(context, { id }) {
    const directive = await findApprovable(context, id);
    await context.engine.directives.waiting.refuseApproval(directive, deciderOf(context));
    return parseJson(directive.plan) as string[];
  },
});

export const cancelDirective = defineOperation({
  name: 'directive.cancel',
  summary: 'End a directive that has not begun: it waits for approval, or for its time.',
  effect: 'destroy',
  scope: 'directives:rw',
  input,
  output: answerShape,
  errors,
  http: { method: 'POST', path: '/directives/:id/cancel', isSecret: true },
  cli: {
    positionals: ['id'],
    examples: ['ductile directive cancel 0199a1b2-…'],
  },
  async run(context, { id }) {
    const directive = await findOwn(context, id);
    const by = deciderOf(context);
    return showAnswer(await context.engine.directives.waiting.cancel(directive.id, by));
  },
  async plan(context, { id }) {
    const directive = await findOwn(context, id);
    if (directive.status !== 'requested') throw notWaiting(directive);
    return [`The ${directive.type} that ${directive.actor} asked for would never be done.`];
  },
});

function deciderOf({ principal: { actor, role } }: Context): Decider {
  return { actor, isOwner: role === 'owner' };
}

/** Whoever decides about a directive must be allowed what it does. */
async function findApprovable(context: Context, id: string): Promise<Directive> {
  refuseDecision(context.principal, `the directive ${id}`);
  const directive = await findDirective(context.engine.ledger, id);
  if (!allows(context.principal.scopes, directive.scope)) throw forbidden(directive);
  await refuseDenied(context, directive.type, parseJson(directive.params) as object);
  return directive;
}

/** One's own can be taken back whatever one's token allows by now. */
async function findOwn(context: Context, id: string): Promise<Directive> {
  const directive = await findDirective(context.engine.ledger, id);
  const { actor, scopes } = context.principal;
  if (directive.actor !== actor && !allows(scopes, directive.scope)) throw forbidden(directive);
  return directive;
}

function forbidden({ type, scope }: Directive): DuctileError {
  return new DuctileError('FORBIDDEN', `the token does not allow ${type}`, {
    hint: `Use a token with the scope ${scope}.`,
  });
}
