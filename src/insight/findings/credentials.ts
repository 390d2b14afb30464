import { join } from 'node:path';
import { findCredentials } from '../../base/credential-ref.ts';
import type { Timestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import { quoteShell } from '../../base/text.ts';
import type { Config } from '../../config/config.ts';
import {
  type CheckContext,
  defineFinding,
  listOpenIncidents,
  shareReading,
} from '../define-finding.service.ts';
import type { Incident } from '../types.ts';
import { describeRecorded } from './observed.ts';

/** A key that sealed secrets and that this process doesn't have. */
export interface MissingKey {
  readonly keyId: string;
  /** Names of the credentials that it sealed. */
  readonly credentials: readonly string[];
  /** Ids of the webhooks whose secret it sealed. */
  readonly webhooks: readonly string[];
  /** The file for keys. Undefined in a tenant's ledger. */
  readonly file?: string | undefined;
  /** The process has no key at all. */
  readonly hasNone?: boolean | undefined;
}

const KEY_FIX = 'Give the service the key that sealed them, or set them again.';

export const credentialKeyMissing = defineFinding<MissingKey | Incident>({
  kind: 'credential_key_missing',
  condition: 'Credentials or webhooks are sealed with a key that the service does not have.',
  rank: { severity: 'error', category: 'credentials', repair: 'secret' },
  fix: KEY_FIX,
  command: 'ductile credential list',
  incident: 'found',
  async find(context) {
    if (context.keyIds !== undefined) return (await readMissingKeys(context)).filter(isUsed);
    // While a service runs, only the service knows which keys it has.
    const open = await listOpenIncidents(context);
    return open.filter(({ kind }) => kind === 'credential_key_missing');
  },
  describe(missing) {
    if ('openedAt' in missing) {
      const commands = ['ductile credential list'];
      return describeRecorded(missing, { fix: KEY_FIX, commands });
    }
    const { keyId, credentials, webhooks } = missing;
    return {
      ...describeKey(missing),
      message:
        `The key ${keyId} is missing: plugins that need its secrets fail, ` +
        'and webhooks return 404.',
      commands: [
        ...listRestores(missing),
        ...[
          ...credentials.map((name) => `ductile credential set ${quoteShell(name)}`),
          ...webhooks.map((id) => `ductile webhook rotate ${quoteShell(id)}`),
        ].slice(0, limits.findingIdsMax),
      ],
    };
  },
});

export const payloadKeyMissing = defineFinding<MissingKey>({
  kind: 'payload_key_missing',
  condition: 'Only masked payloads of old signals are sealed with a missing key.',
  rank: { severity: 'info', category: 'credentials' },
  fix: 'Put the key back to replay these signals.',
  command: 'ductile credential list',
  find: async (context) => (await readMissingKeys(context)).filter((missing) => !isUsed(missing)),
  describe: (missing) => ({
    ...describeKey(missing),
    message: `The key ${missing.keyId} is missing, so masked payloads of old signals can't be replayed.`,
    commands: listRestores(missing),
  }),
});

function isUsed({ credentials, webhooks }: MissingKey): boolean {
  return credentials.length + webhooks.length > 0;
}

function describeKey(missing: MissingKey) {
  const { keyId, credentials, webhooks, file } = missing;
  const parts = [
    ...namesOf('credential', credentials),
    ...namesOf('webhook', webhooks),
    ...(isUsed(missing) ? [] : ['masked payloads of signals']),
  ];
  return {
    key: keyId,
    evidence: `sealed with it: ${parts.join('; ')}`,
    fix:
      file === undefined
        ? 'Ask the operator to put the key back, or set the secrets again.'
        : describeFix(file, missing.hasNone === true),
    count: Math.max(1, credentials.length + webhooks.length),
    detail: { key_id: keyId, credentials: [...credentials], webhooks: [...webhooks] },
  };
}

function describeFix(file: string, hasNone: boolean): string {
  const back = `Put the line of the key back into ${file}, or its value into DUCTILE_CREDENTIAL_KEYS.`;
  const first = hasNone ? ` Create a key first: openssl rand -base64 32 > ${file}, mode 0600.` : '';
  return `${back} If it is lost, set the secrets again.${first}`;
}

function namesOf(noun: string, ids: readonly string[]): string[] {
  if (ids.length === 0) return [];
  const shown = ids.slice(0, limits.findingIdsMax).join(', ');
  const more =
    ids.length > limits.findingIdsMax ? ` and ${ids.length - limits.findingIdsMax} more` : '';
  return [`${noun}${ids.length === 1 ? '' : 's'} ${shown}${more}`];
}

/** Returns the file for the credential keys of an installation. */
export function locateKeyFile({ state }: Pick<Config, 'state'>): string {
  return join(state.dir, 'credential.key');
}

function listRestores({ file }: MissingKey): string[] {
  return file === undefined ? [] : [`cp BACKUP/credential.key ${file}`];
}

const readMissingKeys = shareReading(async (context): Promise<MissingKey[]> => {
  const { ledger, keyIds, config, isRoot } = context;
  if (keyIds === undefined) return [];
  const missing = (await ledger.seals.listKeyIds()).filter((keyId) => !keyIds.includes(keyId));
  return await Promise.all(
    missing.map(async (keyId) => {
      const sealed = await ledger.seals.list(keyId, undefined, limits.findingRowsMax);
      const idsOf = (kind: string): string[] =>
        sealed.filter((row) => row.kind === kind).map(({ id }) => id);
      return {
        keyId,
        credentials: idsOf('credential'),
        webhooks: idsOf('webhook'),
        file: isRoot ? locateKeyFile(config) : undefined,
        hasNone: keyIds.length === 0,
      };
    }),
  );
});

interface MissingCredential {
  readonly name: string;
  /** Such as `plugin mail`. */
  readonly usedBy: readonly string[];
  /** Null if it doesn't exist. */
  readonly expiredAt: Timestamp | null;
}

export const credentialMissing = defineFinding<MissingCredential>({
  kind: 'credential_missing',
  condition: 'A plugin or a webhook needs a credential that is missing or has expired.',
  rank: { severity: 'error', category: 'credentials', repair: 'secret' },
  fix: 'Set it with `ductile credential set`. The next attempt uses it.',
  command: 'ductile credential set NAME',
  incident: 'found',
  async find({ ledger, catalog, config }) {
    const users = listCredentialUsers({ catalog, config });
    if (users.size === 0) return [];
    const rows = new Map((await ledger.credentials.list()).map((row) => [row.name, row]));
    return [...users].flatMap(([name, usedBy]) => {
      const row = rows.get(name);
      if (row !== undefined && !row.isExpired) return [];
      return [{ name, usedBy, expiredAt: row?.expiresAt ?? null }];
    });
  },
  describe: ({ name, usedBy, expiredAt }) => ({
    key: name,
    message:
      `The credential ${name} ${expiredAt === null ? 'is missing' : 'has expired'}: ` +
      `${usedBy.join(', ')} can't work without it.`,
    evidence: expiredAt === null ? 'no credential has this name' : `it expired at ${expiredAt}`,
    commands: [`ductile credential set ${quoteShell(name)}`],
    since: expiredAt,
    count: usedBy.length,
    detail: { credential: name, used_by: [...usedBy] },
  }),
});

/** Lists who needs each credential: plugins, and webhooks whose secret isn't in the files. */
function listCredentialUsers({
  catalog,
  config,
}: Pick<CheckContext, 'catalog' | 'config'>): ReadonlyMap<string, readonly string[]> {
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
  return users;
}
