/**
 * More at once than a webhook may have. DUCTILE_BURST says how many are sent; half of them are
 * within the limit.
 */
import { createHmac } from 'node:crypto';
import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

const sent = Number(process.env['DUCTILE_BURST'] ?? 160);
const allowed = sent / 2;
const CONNECTIONS = 64;
const patienceMs = 15_000 + sent * 50;

interface DeliveryResponse {
  readonly status: number | undefined;
  readonly retryAfter: string | undefined;
  readonly body: { readonly signal_id?: string; readonly job_id?: string };
  readonly ms: number;
}

let api: TestApi;
let secret: string;
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
beforeAll(async () => {
  api = await startApi({ webhooks: { listen: '127.0.0.1:0' }, service: { max_workers: 8 } });
  const hook = { title: 'T', id: 'gh', plugin: 'echo', command: 'poll', auth_mode: 'github' };
  const made = await api.ask('/webhooks', {
    body: JSON.stringify({ ...hook, rate_limit_per_minute: allowed }),
  });
  secret = String(made.body['secret']);
});
afterAll(async () => {
  agent.destroy();
  await api.close();
});

async function deliver(n: number): Promise<DeliveryResponse> {
  const body = `{"n":${n}}`;
  const began = performance.now();
  const exchange = request({
    agent,
    host: '127.0.0.1',
    port: Number(api.server.surfaces.webhooks?.split(':').at(-1)),
    method: 'POST',
    path: '/hooks/gh',
    headers: {
      'content-type': 'application/json',
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      'x-github-delivery': `d-${n}`,
    },
  });
  return await new Promise((resolve, reject) => {
    exchange.on('error', reject).once('response', (response) => {
      text(response)
        .then((said) =>
          resolve({
            status: response.statusCode,
            retryAfter: response.headers['retry-after'],
            body: JSON.parse(said) as DeliveryResponse['body'],
            ms: performance.now() - began,
          }),
        )
        .catch(reject);
    });
    exchange.end(body);
  });
}

test(
  'a burst past the limit is 429 with Retry-After, and accepted deliveries run',
  { timeout: patienceMs + 30_000 },
  async () => {
    const began = performance.now();
    const responses = await Promise.all(Array.from({ length: sent }, (_, n) => deliver(n)));
    const rate = Math.round((sent * 1000) / (performance.now() - began));
    const accepted = responses.filter(({ status }) => status === 202);
    const refused = responses.filter(({ status }) => status === 429);
    expect([accepted.length, refused.length]).toEqual([allowed, sent - allowed]);
    for (const { retryAfter } of refused) {
      expect(Number(retryAfter)).toBeGreaterThan(0);
      expect(Number(retryAfter)).toBeLessThanOrEqual(60);
    }
    const { ledger } = api.server.instance.engine;
    await eventually(
      'all is done',
      async () => {
        const { ready, delayed, running } = await ledger.jobs.countQueue();
        return ready + delayed + running === 0;
      },
      patienceMs,
    );
    const jobs = await ledger.jobs.count({ plugin: 'echo', status: ['succeeded'], limit: sent });
    expect(jobs).toBe(allowed);
    expect(new Set(accepted.map(({ body }) => body.job_id)).size).toBe(allowed);
    expect((await ledger.webhooks.find('gh'))?.triggerCount).toBe(allowed);
    const took = accepted.map(({ ms }) => ms).toSorted((a, b) => a - b);
    const p99 = Math.round(took[Math.floor(took.length * 0.99)] ?? 0);
    console.info(`${sent} deliveries at ${rate}/s: ${allowed} accepted, p99 ${p99} ms`);
  },
);
