import { DuctileError } from '../base/errors.ts';
import { isAtLeast, roleScopes, type Role } from './roles.ts';
import { roleOfNew } from './token-directives.ts';
import type { ApiTokenRow } from './types.ts';
import type { Context } from '../operation/context.ts';
import { allows, forOperator, isNoun, listDenied } from './scopes.ts';

type Asker = Pick<Context, 'engine' | 'principal'>;

/** Checks what a directive requires of its caller besides a scope. */
export async function refuseLesser(asker: Asker, type: string, params: object): Promise<void> {
  const { engine, principal } = asker;
  const known = engine.directives.types.find((one) => one.type === type);
  if (known?.isForRoot === true && principal.tenant !== undefined) throw forOperator();
  const least = known?.role;
  if (least !== undefined && !isAtLeast(principal.role, least)) {
    throw new DuctileError('FORBIDDEN', `${type} is for ${article(least)} ${least}`, {
      hint: `Use a token whose role is ${least}.`,
    });
  }
  if (principal.role === 'owner') return;
  if (type === 'token.create') {
    refuseMore(asker, params);
    refuseApproverName(asker, params);
  }
  if (type === 'token.revoke') await refuseHigher(asker, params);
}

/** Refuses to create a token with more rights than the caller has. */
function refuseMore({ principal }: Asker, params: NewTokenLike): void {
  const scopes = Array.isArray(params.scopes) ? params.scopes.map(String) : [];
  const role = roleOfNew({ role: params.role as Role | undefined, scopes });
  const wanted = [...(roleScopes[role] ?? []), ...scopes].filter((scope) => !isDenial(scope));
  const more = wanted.find((scope) => !allowsScope(principal.scopes, scope));
  const isHigher = !isAtLeast(principal.role, role);
  if (more === undefined && !isHigher && listDenied(principal.scopes).length === 0) return;
  const message = 'a token would be made that may do more than the one that asks';
  throw new DuctileError('FORBIDDEN', message, {
    place: more ?? 'role',
    hint: 'Ask for a role and scopes that you have yourself, or ask an owner.',
  });
}

/** Refuses the name of an approver: such a token could approve in their place. */
function refuseApproverName({ engine }: Asker, { name }: NewTokenLike): void {
  const actor = `token:${String(name)}`;
  const { approval } = engine.config.directives;
  if (!Object.values(approval).some((approvers) => approvers.includes(actor))) return;
  const message = `directives.approval names ${actor} as an approver, so an owner must create it`;
  throw new DuctileError('FORBIDDEN', message, { place: 'name', hint: 'Choose another name.' });
}

interface NewTokenLike {
  readonly name?: unknown;
  readonly role?: unknown;
  readonly scopes?: unknown;
}

/** Refuses to revoke a token with a higher role than the caller's. */
async function refuseHigher(
  { engine, principal }: Asker,
  { token: wanted }: { readonly token?: unknown },
): Promise<void> {
  const isMeant = ({ id, name }: ApiTokenRow) => id === wanted || name === wanted;
  const found = (await engine.ledger.tokens.list()).find(isMeant);
  if (found === undefined || isAtLeast(principal.role, found.role)) return;
  throw new DuctileError(
    'FORBIDDEN',
    `${found.name} is the token of ${article(found.role)} ${found.role}`,
  );
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

function article(role: Role): string {
  return role === 'owner' || role === 'admin' ? 'an' : 'a';
}
