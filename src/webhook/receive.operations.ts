import type { WebhooksConfig } from '../config/config.ts';
import type { WebhookResponse } from './check.ts';
import type { IncomingDelivery } from './request.ts';
import { ANONYMOUS } from '../access/authorize.operations.ts';
import type { Context } from '../operation/context.ts';
import { invoke } from '../operation/invoke.ts';
import { systemHealth } from '../engine/system.operations.ts';

type Base = Pick<Context, 'engine'>;

/** A delivery to the webhook of this id, whichever ledger it is in. */
export function receiveDelivery(
  { engine }: Base,
  id: string,
  incoming: IncomingDelivery,
): Promise<WebhookResponse> {
  return engine.webhooks.receive(id, incoming);
}

/** A delivery to an endpoint of the configuration; undefined when there is none at this path. */
export function receiveAt(
  { engine }: Base,
  path: string,
  incoming: IncomingDelivery,
): Promise<WebhookResponse> | undefined {
  return engine.webhooks.receiveAt(path, incoming);
}

export function hasEndpoint(base: Base, path: string): boolean {
  return webhookRules(base).endpoints.some((endpoint) => endpoint.path === path);
}

/** What the configuration of now says about deliveries. */
export function webhookRules({ engine }: Base): WebhooksConfig {
  return engine.config.webhooks;
}

/** What monitors are told. */
export async function showServiceHealth({ engine }: Base): Promise<WebhookResponse> {
  const context = { engine, principal: ANONYMOUS, submittedBy: 'api' } as const;
  const body = await invoke(systemHealth, context, {});
  return { status: body['status'] === 'ok' ? 200 : 503, body: body as WebhookResponse['body'] };
}
