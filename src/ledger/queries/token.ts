import { limits } from '../../base/limits.ts';
import type { Role } from '../../directive/role.ts';
import type { Row, Session, Transaction } from '../dialect.ts';
import type { ApiTokenRow, DirectiveEnd, PluginSwitch, TokenDraft } from '../directives.ts';
import { int, text, textOrNull } from './row.ts';

export async function createToken(
  tx: Transaction,
  token: TokenDraft,
  actor: string,
): Promise<DirectiveEnd> {
  const { dialect } = tx;
  const tokens = dialect.table('api_tokens');
  const [row] = await tx.run(
    `select count(*) as n, coalesce(sum(case when name = ? then 1 else 0 end), 0) as same
      from ${tokens} where revoked_at is null`,
    [token.name],
  );
  if (int(row ?? {}, 'same') > 0) {
    const error = `there is a token named ${token.name} already`;
    return { status: 'failed', code: 'TOKEN_EXISTS', error };
  }
  if (int(row ?? {}, 'n') >= limits.tokensMax) {
    const error = `there are ${limits.tokensMax} tokens already`;
    return { status: 'failed', code: 'TOKEN_EXISTS', error };
  }
  const expires = token.expiresInMs === undefined ? 'null' : dialect.nowPlus('?');
  const [made] = await tx.run(
    `insert into ${tokens} (id, name, digest, role, scopes, created_by, created_at,
      expires_at) values (?, ?, ?, ?, ?, ?, ${dialect.now}, ${expires}) returning expires_at`,
    [
      token.id,
      token.name,
      token.digest,
      token.role,
      JSON.stringify(token.scopes),
      actor,
      ...(token.expiresInMs === undefined ? [] : [token.expiresInMs]),
    ],
  );
  const result = {
    token_id: token.id,
    name: token.name,
    role: token.role,
    scopes: [...token.scopes],
    expires_at: textOrNull(made ?? {}, 'expires_at'),
  };
  return { status: 'completed', result };
}

export function revokeToken(tx: Transaction, tokenId: string): Promise<DirectiveEnd> {
  return change(tx, tokenId, `revoked_at = ${tx.dialect.now}`, []);
}

/** The old text is worth nothing from the commit on. */
export function rotateToken(
  tx: Transaction,
  tokenId: string,
  digest: string,
): Promise<DirectiveEnd> {
  return change(tx, tokenId, `digest = ?, rotated_at = ${tx.dialect.now}`, [digest]);
}

async function change(
  tx: Transaction,
  tokenId: string,
  set: string,
  values: readonly string[],
): Promise<DirectiveEnd> {
  const [row] = await tx.run(
    `update ${tx.dialect.table('api_tokens')} set ${set}
      where id = ? and revoked_at is null returning id, name`,
    [...values, tokenId],
  );
  if (row === undefined) {
    return { status: 'failed', code: 'TOKEN_NOT_FOUND', error: `there is no token ${tokenId}` };
  }
  return { status: 'completed', result: { token_id: text(row, 'id'), name: text(row, 'name') } };
}

export async function listTokens(session: Session): Promise<ApiTokenRow[]> {
  const { dialect } = session;
  const rows = await session.run(
    `select t.*, case when t.expires_at <= (select ${dialect.now}) then 1 else 0 end as expired
      from ${dialect.table('api_tokens')} t where t.revoked_at is null order by t.name`,
  );
  return rows.map(toToken);
}

export async function noteTokenUse(tx: Transaction, ids: readonly string[]): Promise<void> {
  // In one order for all hosts, so that two of them cannot wait for each other.
  for (const id of ids.toSorted()) {
    await tx.run(
      `update ${tx.dialect.table('api_tokens')} set last_used_at = ${tx.dialect.now}
        where id = ? and revoked_at is null`,
      [id],
    );
  }
}

export async function listSwitchedOff(session: Session): Promise<PluginSwitch[]> {
  const rows = await session.run(
    `select * from ${session.dialect.table('plugin_switches')} where enabled = 0
      order by plugin_name`,
  );
  return rows.map((row) => ({
    plugin: text(row, 'plugin_name'),
    changedBy: text(row, 'changed_by'),
    changedAt: text(row, 'changed_at'),
  }));
}

function toToken(row: Row): ApiTokenRow {
  return {
    id: text(row, 'id'),
    name: text(row, 'name'),
    digest: text(row, 'digest'),
    role: text(row, 'role') as Role,
    scopes: JSON.parse(text(row, 'scopes')) as string[],
    createdBy: text(row, 'created_by'),
    createdAt: text(row, 'created_at'),
    expiresAt: textOrNull(row, 'expires_at'),
    rotatedAt: textOrNull(row, 'rotated_at'),
    lastUsedAt: textOrNull(row, 'last_used_at'),
    expired: row['expired'] === 1,
  };
}
