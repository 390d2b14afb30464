import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { EndpointConfig, WebhooksConfig } from '../config/config.ts';
import type { Webhook } from './webhook.ts';
import type { WebhookIntake } from './webhooks.ts';
import type { KnownWebhook } from './webhook.ts';

type Endpoints = Pick<WebhooksConfig, 'endpoints'>;

/** The webhook that the configuration has at this path. */
export function findEndpoint({ endpoints }: Endpoints, path: string): Webhook | undefined {
  const endpoint = endpoints.find((one) => one.path === path);
  return endpoint && toHook(endpoint);
}

export async function knowEndpoint(
  endpoint: EndpointConfig,
  { store }: WebhookIntake,
): Promise<KnownWebhook> {
  const secret = endpoint.secret ?? (await store.credential(endpoint.secretRef)) ?? '';
  return { secrets: secret.trim() === '' ? [] : [secret], webhook: toHook(endpoint) };
}

/** Throws when an endpoint has no secret to be verified with. */
export async function requireSecrets({ endpoints }: Endpoints, door: WebhookIntake): Promise<void> {
  for (const endpoint of endpoints) {
    if ((await knowEndpoint(endpoint, door)).secrets.length === 0) throw unresolved(endpoint);
  }
}

function toHook(endpoint: EndpointConfig): Webhook {
  const { path, plugin, command, auth, eventRules, maxBodyBytes, waitMs } = endpoint;
  return {
    id: path,
    title: path,
    description: '',
    enabled: true,
    target: { kind: 'command', plugin, command },
    auth,
    replay: 'normal',
    eventRules,
    maxBodyBytes,
    ratePerMinute: limits.hookRateMax,
    waitMs,
  };
}

function unresolved({ path, secretRef, place }: EndpointConfig): DuctileError {
  const message = `the webhook ${path} has no secret: neither tokens.yaml nor a credential is called ${secretRef}`;
  const hint = `Add it to a tokens.yaml that config.yaml includes, or run \`ductile credential set ${secretRef}\`.`;
  return new DuctileError('CONFIG_INVALID', message, { place, hint });
}
