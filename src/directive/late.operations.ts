import { DuctileError } from '../base/errors.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Directive } from './directive.ts';
import type { Engine } from '../engine/engine.ts';
import type { Principal } from '../access/principal.service.ts';
import { refuseDenied } from '../access/denied-commands.operations.ts';
import { refuseLesser } from '../access/grantable.operations.ts';
import { allows } from '../access/scopes.ts';

/**
 * Whoever asked for a directive that waited must still be allowed what it does when it begins: a token
 * may do less by then than it might.
 */
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
