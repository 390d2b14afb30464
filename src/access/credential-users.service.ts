import { findCredentials } from '../base/credential-ref.ts';
import type { Config } from '../config/config.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';

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
