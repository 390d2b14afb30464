import { DuctileError } from '../base/errors.ts';
import type { Directive } from '../directive/directive.ts';
import type { EngineStatus } from './engine.ts';
import type { Webhooks } from '../webhook/webhooks.ts';
import type { TokenStore } from '../access/tokens.service.ts';
import { isToken, type Principal } from '../access/principal.service.ts';

/** What the parts must know of the engine as a whole. */
export interface EngineLife {
  isRunning(): boolean;
  /** Throws while nothing is accepted. */
  admit(): void;
  status(): EngineStatus;
  /** Delivers to a webhook of this ledger. */
  receive: Webhooks['receive'];
  /** Throws when this one may not have it done any more. */
  authorize(principal: Principal, directive: Directive): Promise<void>;
}

/** Only tokens can be made to do less; whoever has none speaks for the operator or an installation. */
export async function authorizeAsker(
  directive: Directive,
  tokens: Pick<TokenStore, 'holderOf'>,
  life: Pick<EngineLife, 'authorize'>,
): Promise<void> {
  const { actor, type } = directive;
  if (!isToken(actor)) return;
  const principal = await tokens.holderOf(actor);
  if (principal === undefined) {
    throw new DuctileError('FORBIDDEN', `${actor}, who asked for ${type}, is gone`);
  }
  await life.authorize(principal, directive);
}
