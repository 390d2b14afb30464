import { DuctileError, toDuctileError } from '../base/errors.ts';
import { RUN_TOKEN } from '../base/secrets.ts';
import type { ApiConfig, TelemetryConfig } from '../config/config.ts';
import { hashTokenText, type Principal } from '../access/tokens.service.ts';
import type { Context } from './context.ts';
import type { JsonOutput, Operation } from './define.ts';
import {
  allows,
  describeNeed,
  createOperatorError,
  hintForNeed,
  mayAllow,
} from '../access/scopes.ts';
import type { Engine } from '../engine/engine.ts';
import type { Tenants, Visit } from '../tenant/tenants.ts';

/** Checks the rights of every call: refuses operations that the principal's scopes don't cover. */
export function authorize(operation: Operation, context: Context, input: unknown): void {
  const { scope, isForRoot } = operation;
  if (isForRoot === true && context.principal.tenant !== undefined) {
    throw createOperatorError();
  }
  const need = typeof scope === 'function' ? scope(context, input) : scope;
  if (need === undefined || allows(context.principal.scopes, need)) return;
  recordRefused(context, operation, describeNeed(need));
  throw new DuctileError('FORBIDDEN', 'the token does not allow this', {
    hint: hintForNeed(context.principal.scopes, need),
  });
}

/**
 * Checks the rights from the URL alone, before a body is read. If the body decides what is needed,
 * it only refuses tokens that can't do anything of the kind.
 */
export function authorizeUrl(operation: Operation, context: Context, urlInput: JsonOutput): void {
  const { scope, scopeIn, effect } = operation;
  if (typeof scope !== 'function' || scopeIn === 'url')
    return authorize(operation, context, urlInput);
  if (mayAllow(context.principal.scopes, effect === 'read' ? 'read' : 'write')) return;
  recordRefused(context, operation, undefined);
  throw new DuctileError('FORBIDDEN', 'the token does not allow this');
}

/** Counts per token and operation. Both are known names, so callers can't create new ones. */
function recordRefused(
  { engine, principal }: Pick<Context, 'engine' | 'principal'>,
  { name, effect }: Pick<Operation, 'name' | 'effect'>,
  scope: string | undefined,
): void {
  const { actor } = principal;
  const least = scope ?? null;
  const key = `${actor} ${name} ${scope ?? effect}`;
  engine.observations?.count('call_refused', key, { actor, operation: name, scope: least });
}

/** Counts calls with invalid tokens: together, or by the name of an expired token. */
export function recordWrongToken(
  base: Base,
  presented: string,
  operation: string | undefined,
): void {
  const expired = base.engine.tokens.findExpired?.(presented);
  const actor = expired === undefined ? null : `token:${expired}`;
  const key = actor === null ? 'unknown token' : `${actor} expired`;
  const detail = { actor, operation: operation ?? null, expired: expired !== undefined };
  base.engine.observations?.count('call_refused', key, detail);
}

/** The principal of calls without a token. */
export const ANONYMOUS: Principal = {
  actor: 'anonymous',
  scopes: [],
  role: 'service',
  tenant: undefined,
};

/** The principal that reads metrics without a token, if the configuration allows it. */
export const SCRAPER: Principal = { ...ANONYMOUS, actor: 'scraper', scopes: ['metrics:ro'] };

type Base = Pick<Context, 'engine'>;

/** An authenticated caller, with the engine of their ledger. */
export interface Admission extends Base {
  readonly principal: Principal;
  /**
   * Returns the current principal from memory; undefined when the token has expired or was revoked.
   */
  readonly again: () => Promise<Principal | undefined>;
  /** Called when all requests of the caller have their response. */
  leave(): void;
}

/** Admits a caller to the root ledger. */
export function admitToRoot({ engine }: Base, principal: Principal): Admission {
  return { engine, principal, again: async () => principal, leave: () => undefined };
}

/**
 * Identifies the caller of a token; undefined without access. The token alone decides the ledger:
 * the root ledger knows the tenant of each token, and the tenant's ledger knows whether it is
 * valid.
 */
export async function identify(base: Base, presented: string): Promise<Admission | undefined> {
  const { tokens, tenants, ledger } = base.engine;
  if (isRunToken(presented)) return await identifyRun(base, presented);
  const own = await tokens.find(presented);
  if (own !== undefined) return { ...admitToRoot(base, own), again: () => tokens.find(presented) };
  if (tenants === undefined) return undefined;
  const slug = await ledger.tenants.findByKey('token', hashTokenText(presented));
  const visit = slug === undefined ? undefined : await tryVisit(tenants, slug);
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

/** True for a token of a running attempt. No ledger stores them. */
export function isRunToken(presented: string): boolean {
  return presented.startsWith(RUN_TOKEN);
}

async function identifyRun(base: Base, presented: string): Promise<Admission | undefined> {
  const { runTokens, tenants } = base.engine;
  const principal = runTokens.find(presented);
  const again = async () => runTokens.find(presented);
  if (principal?.tenant === undefined) {
    return principal && { ...admitToRoot(base, principal), again };
  }
  const visit = tenants && (await tryVisit(tenants, principal.tenant));
  return visit && { engine: visit.engine, principal, again, leave: () => visit.end() };
}

async function tryVisit(
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

/** Returns the current settings for callers of the API. */
export function readAccessRules({
  engine: { config },
}: Base): ApiConfig & Pick<TelemetryConfig, 'metrics'> {
  return { ...config.api, metrics: config.telemetry.metrics };
}

/** True if plugins that can open the control socket must not use it. */
export async function isSocketGuarded({ engine }: Base): Promise<boolean> {
  if (engine.config.tenants.trust === 'shared') return false;
  return (await engine.ledger.tenants.list()).length > 0;
}
