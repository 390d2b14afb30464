/** Shared by the programs that deliver to webhooks: the body and its signature. */
import { createHmac } from 'node:crypto';
import { limits } from '../../src/base/limits.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import { textIn } from '../../src/operation/request-directive.ts';
import type { Measures } from '../frame.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';

const BODY_BYTES = 1024;
export const webhookBody = JSON.stringify({ text: 'x'.repeat(BODY_BYTES - '{"text":""}'.length) });
export const WEBHOOK_PATH = '/hooks/bench';

/** Header with the proof of a delivery. */
export type Proof = readonly [name: string, value: string];

export function signDelivery(name: string, secret: string): Proof {
  return [name, `sha256=${createHmac('sha256', secret).update(webhookBody).digest('hex')}`];
}

/** Delivers to the webhook over a number of connections; every response must have this status. */
export async function loadWebhook(
  address: string,
  connections: number,
  proof: Proof,
  status: number,
): Promise<Measures> {
  return await runNode('http-load', {
    port: Number(address.split(':')[1]),
    connections,
    warmUpSeconds: settings.webhookWarmUpSeconds,
    warmUpConnections: settings.warmUpConnections,
    seconds: settings.httpSeconds,
    path: WEBHOOK_PATH,
    proof,
    body: webhookBody,
    status,
  });
}

/** Creates a webhook for a plugin; returns the proof of its deliveries. */
export async function openWebhook(
  engine: LedgerEngine,
  plugin: string,
  more: object,
): Promise<Proof> {
  const made = await engine.direct({
    type: 'webhook.create',
    actor: 'bench',
    params: {
      id: 'bench',
      settings: {
        title: 'Bench',
        plugin,
        auth_mode: 'hmac',
        hmac_header: 'X-Signature',
        rate_limit_per_minute: limits.webhookRateMax,
        ...more,
      },
    },
  });
  return signDelivery('x-signature', textIn(made.result ?? {}, 'secret'));
}
