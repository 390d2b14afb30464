import { DuctileError } from '../base/errors.ts';
import type { ApiConfig } from '../config/config.ts';
import type { Principal } from '../engine/tokens.ts';
import type { Context } from './context.ts';
import type { Operation } from './define.ts';
import { allows, describeNeed } from './scopes.ts';

/** The one check of rights: refuses what the principal's scopes do not cover. */
export function authorize({ scope }: Operation, context: Context, input: unknown): void {
  const need = typeof scope === 'function' ? scope(context, input) : scope;
  if (need === undefined || allows(context.principal.scopes, need)) return;
  throw new DuctileError('FORBIDDEN', 'the token does not allow this', {
    hint: `Use a token with the scope ${describeNeed(need)}.`,
  });
}

/** Whoever shows no token. */
export const ANONYMOUS: Principal = { actor: 'anonymous', scopes: [] };

type Base = Pick<Context, 'engine'>;

/** Whose token this is; undefined for one that gives no access. */
export function identify({ engine }: Base, presented: string): Promise<Principal | undefined> {
  return engine.tokens.find(presented);
}

/** What the configuration of now says about callers of the API. */
export function accessRules({ engine }: Base): ApiConfig {
  return engine.config.api;
}
