import { findCredentials } from '../base/credential-ref.ts';
import type { Config } from '../config/config.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';

/** Who goes by a credential. */
export interface CredentialUsers {
  /** The plugins whose configuration asks for it. */
  readonly plugins: readonly string[];
  /** The ids of the webhooks that are verified with it, and the paths of endpoints. */
  readonly webhooks: readonly string[];
}

export interface CredentialHolder {
  readonly catalog: Catalog;
  readonly config: Pick<Config, 'webhooks'>;
  readonly webhookIntake: Pick<WebhookIntake, 'store'>;
  /** Undefined for the root ledger: the endpoints of the configuration go by its credentials. */
  readonly tenant: unknown;
}

/** Reads what there is once, for however many credentials are asked about. */
export async function readUsers({
  catalog,
  config,
  webhookIntake,
  tenant,
}: CredentialHolder): Promise<(name: string) => CredentialUsers> {
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
