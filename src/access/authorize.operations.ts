import { DuctileError, toDuctileError } from '../base/errors.ts';
import { RUN_TOKEN } from '../base/secrets.ts';
import type { ApiConfig, TelemetryConfig } from '../config/config.ts';
import { digestOf, type Principal } from './principal.service.ts';
import type { Context } from '../operation/context.ts';
import type { JsonOutput, Operation } from '../operation/define.ts';
import { allows, describeNeed, forOperator, hintForNeed, mayAllow } from './scopes.ts';
import type { Engine } from '../engine/engine.ts';
import type { Tenants, Visit } from '../tenant/tenants.ts';

/** The one check of rights: refuses what the principal's scopes do not cover. */
export function authorize(operation: Operation, context: Context, input: unknown): void {
  const { scope, isForRoot } = operation;
  if (isForRoot === true && context.principal.tenant !== undefined) {
    throw forOperator();
  }
  const need = typeof scope === 'function' ? scope(context, input) : scope;
  if (need === undefined || allows(context.principal.scopes, need)) return;
  noteRefused(context, operation, describeNeed(need));
  throw new DuctileError('FORBIDDEN', 'the token does not allow this', {
    hint: hintForNeed(context.principal.scopes, need),
  });
}

/**
 * The same check with the fields of the URL alone, before a body is read. Where only the body says
 * what is needed, it refuses tokens that could not do anything of the kind.
 */
export function authorizeUrl(operation: Operation, context: Context, inUrl: JsonOutput): void {
  const { scope, scopeIn, effect } = operation;
  if (typeof scope !== 'function' || scopeIn === 'url') return authorize(operation, context, inUrl);
  if (mayAllow(context.principal.scopes, effect === 'read' ? 'read' : 'write')) return;
  noteRefused(context, operation, undefined);
  throw new DuctileError('FORBIDDEN', 'the token does not allow this');
}

/** One count for each token and operation: both are known here, so callers can't make up others. */
function noteRefused(
  { engine, principal }: Pick<Context, 'engine' | 'principal'>,
  { name, effect }: Pick<Operation, 'name' | 'effect'>,
  scope: string | undefined,
): void {
  const { actor } = principal;
  const least = scope ?? null;
  const key = `${actor} ${name} ${scope ?? effect}`;
  engine.observations?.note('call_refused', key, { actor, operation: name, scope: least });
}

/** Counts a call whose token isn't valid, all together or by the name of an expired token. */
export function noteWrongToken(base: Base, presented: string, operation: string | undefined): void {
  const expired = base.engine.tokens.findExpired?.(presented);
  const actor = expired === undefined ? null : `token:${expired}`;
  const key = actor === null ? 'unknown token' : `${actor} expired`;
  const detail = { actor, operation: operation ?? null, expired: expired !== undefined };
  base.engine.observations?.note('call_refused', key, detail);
}

/** Whoever shows no token. */
export const ANONYMOUS: Principal = {
  actor: 'anonymous',
  scopes: [],
  role: 'service',
  tenant: undefined,
};

/** Whoever reads figures where the operator let everybody do that. */
export const SCRAPER: Principal = { ...ANONYMOUS, actor: 'scraper', scopes: ['metrics:ro'] };

type Base = Pick<Context, 'engine'>;

/** Somebody who was let in, and the engine of the ledger that is theirs. */
export interface Admission extends Base {
  readonly principal: Principal;
  /** Who they are by now, from memory; undefined when their token has ended. */
  readonly again: () => Promise<Principal | undefined>;
  /** Said when everything that they asked for is answered. */
  leave(): void;
}

/** Somebody who is let into the root ledger. */
export function admitHere({ engine }: Base, principal: Principal): Admission {
  return { engine, principal, again: async () => principal, leave: () => undefined };
}

/**
 * Whose token this is; undefined for one that gives no access. Which ledger it is about is known from
 * the token alone: the root ledger says to which one it leads, and that one whether it is good.
 */
export async function identify(base: Base, presented: string): Promise<Admission | undefined> {
  const { tokens, tenants, ledger } = base.engine;
  if (isRunToken(presented)) return await identifyRun(base, presented);
  const own = await tokens.find(presented);
  if (own !== undefined) return { ...admitHere(base, own), again: () => tokens.find(presented) };
  if (tenants === undefined) return undefined;
  const slug = await ledger.tenants.findByKey('token', digestOf(presented));
  const visit = slug === undefined ? undefined : await visitIfThere(tenants, slug);
  if (visit === undefined) return undefined;
  try {
    const { engine } = visit;
    const again = () => engine.tokens.find(presented);
    const principal = await again();
    if (principal !== undefined) return { engine, principal, again, leave: () => visit.end() };
  } catch (error) {
    visit.end();
    throw error;
  }
  visit.end();
  return undefined;
}

/** Nobody guesses one of these, and no ledger is asked about it. */
export function isRunToken(presented: string): boolean {
  return presented.startsWith(RUN_TOKEN);
}

async function identifyRun(base: Base, presented: string): Promise<Admission | undefined> {
  const { runTokens, tenants } = base.engine;
  const principal = runTokens.find(presented);
  const again = async () => runTokens.find(presented);
  if (principal?.tenant === undefined) {
    return principal && { ...admitHere(base, principal), again };
  }
  const visit = tenants && (await visitIfThere(tenants, principal.tenant));
  return visit && { engine: visit.engine, principal, again, leave: () => visit.end() };
}

async function visitIfThere(
  tenants: Tenants<Engine>,
  slug: string,
): Promise<Visit<Engine> | undefined> {
  try {
    return await tenants.visit(slug);
  } catch (thrown) {
    if (toDuctileError(thrown).code === 'TENANT_NOT_FOUND') return undefined;
    throw thrown;
  }
}

/** What the configuration of now says about callers of the API. */
export function accessRules({
  engine: { config },
}: Base): ApiConfig & Pick<TelemetryConfig, 'metrics'> {
  return { ...config.api, metrics: config.telemetry.metrics };
}

/** Whether plugins that may open the control socket may not use it. */
export async function isGuarded({ engine }: Base): Promise<boolean> {
  if (engine.config.tenants.trust === 'shared') return false;
  return (await engine.ledger.tenants.list()).length > 0;
}
