import { limits } from '../base/limits.ts';
import type { TokenOrigin } from '../directive/approval.ts';
import type { Session, Transaction } from '../ledger/dialect.ts';
import { insertRow } from '../ledger/insert.ts';
import { apiTokenTable, type ApiTokenRow, type TokenDraft } from './types.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import { int, text, textOrNull } from '../ledger/row.ts';

export async function createToken(
  tx: Transaction,
  token: TokenDraft,
  actor: string,
): Promise<DirectiveEnd> {
  const { dialect } = tx;
  const tokens = dialect.table('api_tokens');
  const taken = await describeTakenName(tx, token.name);
  if (taken !== undefined) return { status: 'failed', code: 'TOKEN_EXISTS', error: taken };
  const [row] = await tx.run(`select count(*) as n from ${tokens} where revoked_at is null`);
  if (int(row ?? {}, 'n') >= limits.tokensMax) {
    const error = `there are already ${limits.tokensMax} tokens, which is the limit`;
    return { status: 'failed', code: 'TOKEN_EXISTS', error };
  }
  await claimNames(tx, [token.name], 'ledger');
  const { expiresInMs } = token;
  const [made] = await insertRow(
    tx,
    apiTokenTable,
    {
      ...token,
      createdBy: actor,
      createdAt: { sql: dialect.now },
      expiresAt:
        expiresInMs === undefined ? null : { sql: dialect.nowPlus('?'), values: [expiresInMs] },
    },
    'returning expires_at',
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

/** Explains why a token can't have this name; undefined if no token ever had it. */
export async function describeTakenName(
  session: Session,
  name: string,
): Promise<string | undefined> {
  const { dialect } = session;
  const [row] = await session.run(
    `select n.source, t.id, t.revoked_at from ${dialect.table('token_names')} n
      left join ${dialect.table('api_tokens')} t on t.name = n.name
      where n.name = ? order by t.revoked_at is not null, t.revoked_at desc limit 1`,
    [name],
  );
  if (row === undefined) return undefined;
  if (text(row, 'source') === 'config') {
    return `the name ${name} belongs or belonged to a token of the configuration files`;
  }
  const revokedAt = textOrNull(row, 'revoked_at');
  if (textOrNull(row, 'id') !== null && revokedAt === null) {
    return `a token named ${name} already exists`;
  }
  const when = revokedAt === null ? '' : ` at ${revokedAt}`;
  return `the token named ${name} was revoked or expired${when}, and its name is never reused`;
}

/** Records the names of the configuration's tokens; returns those that the ledger's tokens have or had. */
export async function claimTokenNames(
  tx: Transaction,
  names: readonly string[],
): Promise<string[]> {
  await claimNames(tx, names, 'config');
  const rows = await tx.run(
    `select name from ${tx.dialect.table('token_names')} where source = 'ledger' order by name`,
  );
  const known = new Set(rows.map((row) => text(row, 'name')));
  return names.filter((name) => known.has(name));
}

async function claimNames(
  tx: Transaction,
  names: readonly string[],
  source: 'config' | 'ledger',
): Promise<void> {
  const { dialect } = tx;
  // All hosts write in the same order, so that they can't deadlock.
  for (const name of names.toSorted()) {
    await tx.run(
      `insert into ${dialect.table('token_names')} (name, source, taken_at)
        values (?, ?, ${dialect.now}) on conflict (name) do nothing`,
      [name, source],
    );
  }
}

/** Lists who created which token, including revoked ones that have created others. */
export async function listTokenOrigins(session: Session): Promise<TokenOrigin[]> {
  const origins = apiTokenTable.pick('name', 'role', 'createdBy');
  const rows = await session.run(
    `select ${origins.columns()} from ${session.dialect.table('api_tokens')}
      order by revoked_at is null, created_at`,
  );
  return rows.map(origins.decode);
}

export function revokeToken(tx: Transaction, tokenId: string): Promise<DirectiveEnd> {
  return updateToken(tx, tokenId, `revoked_at = ${tx.dialect.now}`, []);
}

/** Replaces the digest: the old token is invalid from the commit on. */
export function rotateToken(
  tx: Transaction,
  tokenId: string,
  digest: string,
): Promise<DirectiveEnd> {
  return updateToken(tx, tokenId, `digest = ?, rotated_at = ${tx.dialect.now}`, [digest]);
}

async function updateToken(
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
  return rows.map((row) => ({ ...apiTokenTable.decode(row), expired: row['expired'] === 1 }));
}

export async function recordTokenUse(tx: Transaction, ids: readonly string[]): Promise<void> {
  // All hosts write in the same order, so that they can't deadlock.
  for (const id of ids.toSorted()) {
    await tx.run(
      `update ${tx.dialect.table('api_tokens')} set last_used_at = ${tx.dialect.now}
        where id = ? and revoked_at is null`,
      [id],
    );
  }
}
