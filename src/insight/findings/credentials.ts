import { join } from 'node:path';
import { findCredentials } from '../../base/credential-ref.ts';
import { limits } from '../../base/limits.ts';
import type { SealedRow } from '../../access/types.ts';
import type { Check, CheckContext } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';

/** Finds secrets that can't be opened here, because the key that sealed them is missing. */
export const findMissingKeys: Check = async (context) => {
  const { ledger, keyIds } = context;
  if (keyIds === undefined) return [];
  const missing = (await ledger.seals.listKeyIds()).filter((keyId) => !keyIds.includes(keyId));
  return await Promise.all(
    missing.map(async (keyId) => {
      const things = await ledger.seals.list(keyId, undefined, limits.findingRowsMax);
      return describeMissing(keyId, things, context);
    }),
  );
};

function describeMissing(
  keyId: string,
  things: readonly SealedRow[],
  { config, isRoot, keyIds }: CheckContext,
): LiveFinding {
  const idsOf = (kind: SealedRow['kind']): string[] =>
    things.filter((thing) => thing.kind === kind).map(({ id }) => id);
  const [credentials, webhooks] = [idsOf('credential'), idsOf('webhook')];
  const isUsed = credentials.length + webhooks.length > 0;
  const parts = [
    ...namesOf('credential', credentials),
    ...namesOf('webhook', webhooks),
    ...(isUsed ? [] : ['masked payloads of signals']),
  ];
  const file = join(config.state.dir, 'credential.key');
  const hasNone = keyIds?.length === 0;
  const renewed = [
    ...credentials.map((name) => `ductile credential set ${name}`),
    ...webhooks.map((id) => `ductile webhook rotate ${id}`),
  ].slice(0, limits.findingIdsMax);
  const restore = isRoot ? [`cp BACKUP/credential.key ${file}`] : [];
  return {
    ...(isUsed ? { kind: 'credential_key_missing' } : { kind: 'payload_key_missing' }),
    key: keyId,
    severity: isUsed ? 'error' : 'info',
    category: 'credentials',
    message: isUsed
      ? `The key ${keyId} is missing: plugins that need its secrets fail, and webhooks answer 404.`
      : `The key ${keyId} is missing, so masked payloads of old signals can't be replayed.`,
    evidence: `sealed with it: ${parts.join('; ')}`,
    fix: isRoot
      ? describeFix(file, hasNone)
      : 'Ask the operator to put the key back, or set the secrets again.',
    commands: isUsed ? [...restore, ...renewed] : restore,
    count: Math.max(1, credentials.length + webhooks.length),
    detail: { key_id: keyId, credentials, webhooks },
  };
}

function describeFix(file: string, hasNone: boolean): string {
  const back = `Put the line of the key back into ${file}, or its value into DUCTILE_CREDENTIAL_KEYS.`;
  const first = hasNone ? ` Make a key first: openssl rand -base64 32 > ${file}, mode 0600.` : '';
  return `${back} If it is lost, set the secrets again.${first}`;
}

function namesOf(noun: string, ids: readonly string[]): string[] {
  if (ids.length === 0) return [];
  const shown = ids.slice(0, limits.findingIdsMax).join(', ');
  const more =
    ids.length > limits.findingIdsMax ? ` and ${ids.length - limits.findingIdsMax} more` : '';
  return [`${noun}${ids.length === 1 ? '' : 's'} ${shown}${more}`];
}

/** Finds credentials that the configuration needs and that are missing or have expired. */
export const findMissingCredentials: Check = async ({ ledger, catalog, config }) => {
  const users = new Map<string, string[]>();
  const addUser = (name: string, user: string): void => {
    const known = users.get(name) ?? [];
    if (!known.includes(user)) users.set(name, [...known, user]);
  };
  for (const plugin of catalog?.plugins.values() ?? []) {
    for (const { name } of findCredentials(plugin.config)) addUser(name, `plugin ${plugin.name}`);
  }
  for (const { path, secret, secretRef } of config.webhooks.endpoints) {
    if (secret === undefined) addUser(secretRef, `webhook ${path}`);
  }
  if (users.size === 0) return [];
  const rows = new Map((await ledger.credentials.list()).map((row) => [row.name, row]));
  return [...users].flatMap(([name, usedBy]): LiveFinding[] => {
    const row = rows.get(name);
    if (row !== undefined && !row.isExpired) return [];
    const expiry = row?.expiresAt ?? null;
    return [
      {
        kind: 'credential_missing',
        key: name,
        severity: 'error',
        category: 'credentials',
        message:
          expiry === null
            ? `The credential ${name} is missing: ${usedBy.join(', ')} can't work without it.`
            : `The credential ${name} has expired: ${usedBy.join(', ')} can't work without it.`,
        evidence: expiry === null ? 'no credential has this name' : `it expired at ${expiry}`,
        fix: `Set it with \`ductile credential set ${name}\`. The next attempt uses it.`,
        commands: [`ductile credential set ${name}`],
        since: expiry,
        count: usedBy.length,
        detail: { credential: name, used_by: usedBy },
      },
    ];
  });
};
