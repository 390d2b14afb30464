import { DuctileError } from '../base/errors.ts';
import { isAtLeast, roleOf, roleScopes, withArticle, type Role } from '../base/roles.ts';
import type { Config } from '../config/config.ts';
import type { DirectiveCaller } from '../directive/directive.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import { allows, isNoun, listDeniedCommands } from './scopes.ts';
import type { ApiTokenRow } from './types.ts';

/** Returns the role of a new token: without a role, its scopes decide. */
export function resolveRole({
  role,
  scopes,
}: {
  readonly role?: Role | undefined;
  readonly scopes: readonly string[];
}): Role {
  return role === undefined || scopes.includes('*') ? roleOf(scopes) : role;
}

/** Refuses to create a token with more rights than the caller has. */
export function refuseMoreRights(caller: DirectiveCaller, params: TokenParamsLike): void {
  const scopes = Array.isArray(params.scopes) ? params.scopes.map(String) : [];
  const role = resolveRole({ role: params.role as Role | undefined, scopes });
  const wanted = [...(roleScopes[role] ?? []), ...scopes].filter((scope) => !isDenial(scope));
  const more = wanted.find((scope) => !allowsScope(caller.scopes, scope));
  const isHigher = !isAtLeast(caller.role, role);
  if (more === undefined && !isHigher && listDeniedCommands(caller.scopes).length === 0) return;
  const message = 'the new token would have more rights than yours';
  throw new DuctileError('FORBIDDEN', message, {
    place: more ?? 'role',
    hint: 'Choose a role and scopes that you have yourself, or ask an owner.',
  });
}

/** Refuses the name of an approver: such a token could approve in their place. */
export function refuseApproverName(
  { directives: { approval } }: Pick<Config, 'directives'>,
  { name }: TokenParamsLike,
): void {
  const actor = `token:${String(name)}`;
  if (!Object.values(approval).some((approvers) => approvers.includes(actor))) return;
  const message = `directives.approval names ${actor} as an approver, so an owner must create it`;
  throw new DuctileError('FORBIDDEN', message, { place: 'name', hint: 'Choose another name.' });
}

interface TokenParamsLike {
  readonly name?: unknown;
  readonly role?: unknown;
  readonly scopes?: unknown;
}

/** Refuses to revoke a token with a higher role than the caller's. */
export async function refuseHigherRole(
  ledger: LedgerSubset<'tokens.list'>,
  { token: wanted }: { readonly token?: unknown },
  { role }: DirectiveCaller,
): Promise<void> {
  const isMeant = ({ id, name }: ApiTokenRow) => id === wanted || name === wanted;
  const found = (await ledger.tokens.list()).find(isMeant);
  if (found === undefined || isAtLeast(role, found.role)) return;
  const message = `the token ${found.name} belongs to ${withArticle(found.role)}`;
  const hint = `Use a token whose role is ${found.role}.`;
  throw new DuctileError('FORBIDDEN', message, { hint });
}

function isDenial(scope: string): boolean {
  return scope.split(':')[1] === 'deny';
}

/** True if all rights of a scope are granted. */
function allowsScope(granted: readonly string[], scope: string): boolean {
  if (scope === 'read:*') return granted.includes('*') || granted.includes('read:*');
  const [first = '', second = '', third] = scope.split(':');
  if (second === 'allow' && third !== undefined) {
    return allows(granted, { plugin: first, command: third, type: 'write' });
  }
  if (first === 'read') return allows(granted, `${second}:ro`);
  if (scope === '*' || isNoun(first)) return allows(granted, scope);
  return allows(granted, { plugin: first, type: second === 'ro' ? 'read' : 'write' });
}
