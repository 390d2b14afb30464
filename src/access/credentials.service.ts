import { fillCredentials, findCredentials, formatCredentialMask } from '../base/credential-ref.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { KnownSecret } from '../base/mask-values.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { Config } from '../config/config.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import { guardFirstKey } from './vault.service.ts';
import { purposes } from './vault.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';

/** A plugin's configuration with the values of its credentials. */
export interface RevealedConfig {
  readonly config: Readonly<JsonObject>;
  /** The values that must be masked in all output. */
  readonly secrets: readonly KnownSecret[];
}

/** The values of credentials, read for each attempt: a change or a deletion counts at once. */
export interface Credentials extends Service {
  /** Throws CREDENTIAL_NOT_FOUND if a credential is missing or has expired. */
  reveal(plugin: Pick<Plugin, 'config'>): Promise<RevealedConfig>;
}

export function makeCredentials(context: LedgerContext): Credentials {
  const { ledger, vault } = context;
  const log = context.log.child('credentials');
  const used = new Set<string>();
  const flush = async (): Promise<void> => {
    if (used.size === 0) return;
    const names = [...used];
    used.clear();
    await ledger.credentials.recordUse(names);
  };
  const logUnrecorded = (error: unknown): void =>
    log.warn('the use of credentials was not recorded', { error: messageOf(error) });
  const loop = makeLoop({
    name: 'credentials',
    everyMs: () => limits.tokenUseEveryMs,
    runOnce: flush,
    onError: logUnrecorded,
  });

  const readValue = async (name: string): Promise<string> => {
    const found = await ledger.credentials.find(name);
    if (found === undefined) throw createMissingError(name, `there is no credential ${name}`);
    if (found.isExpired) throw createMissingError(name, `the credential ${name} is past its time`);
    used.add(name);
    return vault.open(found.sealed, purposes.credential(name));
  };

  return {
    ...loop,
    async reveal({ config }) {
      const names = listNames(config);
      if (names.length === 0) return { config, secrets: [] };
      const values = new Map<string, string>();
      for (const name of names) values.set(name, await readValue(name));
      const secrets = [...values].map(([name, value]) => ({
        value,
        shown: formatCredentialMask(name),
      }));
      return { config: fillCredentials(config, (name) => values.get(name) ?? ''), secrets };
    },
    async start() {
      await guardFirstKey(vault, ledger);
      await loop.start();
    },
    async stop() {
      await loop.stop();
      await flush().catch(logUnrecorded);
    },
  };
}

const namesByConfig = new WeakMap<Readonly<JsonObject>, readonly string[]>();

/** Lists the credentials of a configuration, which never changes, so that it is searched once. */
function listNames(config: Readonly<JsonObject>): readonly string[] {
  let names = namesByConfig.get(config);
  if (names === undefined) {
    names = [...new Set(findCredentials(config).map(({ name }) => name))];
    namesByConfig.set(config, names);
  }
  return names;
}

function createMissingError(name: string, message: string): DuctileError {
  return new DuctileError('CREDENTIAL_NOT_FOUND', message, {
    place: name,
    hint: `Set it with \`ductile credential set ${name}\`.`,
  });
}

/** The users of a credential. */
export interface CredentialUsers {
  /** The plugins whose configuration refers to it. */
  readonly plugins: readonly string[];
  /** The ids of the webhooks that are verified with it, and the paths of endpoints. */
  readonly webhooks: readonly string[];
}

interface CredentialSources {
  readonly catalog: Catalog;
  readonly config: Pick<Config, 'webhooks'>;
  readonly webhookIntake: Pick<WebhookIntake, 'store'>;
  /** Undefined for the root ledger, whose credentials verify the endpoints of the configuration. */
  readonly tenant: unknown;
}

/** Reads all references once, and returns a function that finds the users of one credential. */
export async function readCredentialUsers({
  catalog,
  config,
  webhookIntake,
  tenant,
}: CredentialSources): Promise<(name: string) => CredentialUsers> {
  const references = [...(await webhookIntake.store.references())];
  const endpoints = tenant === undefined ? config.webhooks.endpoints : [];
  return (name) => ({
    plugins: [...catalog.plugins.values()]
      .filter((plugin) => findCredentials(plugin.config).some((use) => use.name === name))
      .map((plugin) => plugin.name),
    webhooks: [
      ...references.flatMap(([id, names]) => (names.includes(name) ? [id] : [])),
      ...endpoints
        .filter(({ secret, secretRef }) => secret === undefined && secretRef === name)
        .map(({ path }) => path),
    ],
  });
}
