import { createHmac, randomUUID } from 'node:crypto';
import type { JsonObject } from '../../src/base/json.ts';
import type { Engine } from '../../src/engine/engine.ts';

/** Delivers a push event, signed like GitHub's, to an engine without a listener; returns the status. */
export async function deliverPush(
  { webhooks }: Pick<Engine, 'webhooks'>,
  webhookId: string,
  secret: string,
  payload: JsonObject,
): Promise<number> {
  const rawBody = Buffer.from(JSON.stringify(payload));
  const signature = createHmac('sha256', secret).update(rawBody).digest('hex');
  const headers = [
    ['content-type', 'application/json'],
    ['x-github-event', 'push'],
    ['x-github-delivery', randomUUID()],
    ['x-hub-signature-256', `sha256=${signature}`],
  ] as const;
  const url = `http://127.0.0.1/hooks/${webhookId}`;
  const request = { method: 'POST', url, headers, rawBody };
  const response = await webhooks.receive(webhookId, {
    request,
    source: 'test',
    isOversize: false,
  });
  return response.status;
}
