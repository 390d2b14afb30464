/** The address of a sender behind a trusted proxy. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import {
  openAttackedService,
  type AttackedService,
  type AttackResponse,
} from '../support/webhook-attacks.ts';

let at: AttackedService;
let secret: string;
beforeAll(async () => {
  const proxies = ['127.0.0.1', '10.0.0.0/8', '2001:db8:aaaa::/48'];
  at = await openAttackedService({ webhooks: { listen: '127.0.0.1:0', trusted_proxies: proxies } });
  secret = await at.open('gl', { plugin: 'echo', auth_mode: 'gitlab' });
});
afterAll(() => at.api.close());

function send(from: string, key: string): Promise<AttackResponse> {
  const lines = [
    ['x-forwarded-for', from],
    ['x-gitlab-token', key],
  ] as const;
  return at.post('/hooks/gl', lines, '{}');
}

test.each([
  ['203.0.113.9:1234', '203.0.113.9'],
  ['6.6.6.6, 203.0.113.9, 10.0.0.1:555', '203.0.113.9'],
  ['6.6.6.6, 203.0.113.9, [2001:db8:aaaa::1]:443, ::ffff:10.0.0.2', '203.0.113.9'],
  ['[2001:db8::1]:443', '2001:db8:0:0::/64'],
  ['2001:db8:0:0:1:2:3:4', '2001:db8:0:0::/64'],
  ['somebody', 'somebody'],
  ['10.0.0.1:80', '127.0.0.1'],
])('%s comes from %s', async (from, source) => {
  expect((await send(from, secret)).status).toBe(202);
  const { body } = await at.api.ask('/webhooks/deliveries?limit=1');
  expect(body['deliveries']).toMatchObject([{ source }]);
});

test.each([
  ['forwarded', 'for=203.0.113.9'],
  ['x-forwarded-for', '203.0.113.9'],
  ['x-forwarded-host', 'hooks.example.org'],
  ['x-forwarded-proto', 'https'],
  ['x-real-ip', '203.0.113.9'],
  ['via', '1.1 proxy'],
  ['cf-connecting-ip', '203.0.113.9'],
])(
  'a request that a proxy forwarded with %s learns nothing about this machine',
  async (name, value) => {
    expect((await at.api.deliver('/healthz')).status).toBe(200);
    expect((await at.api.deliver('/healthz', { headers: { [name]: value } })).status).toBe(404);
  },
);

test.each([
  ['another port', (n: number) => `198.51.100.7:${1000 + n}`],
  [
    'another spelling or address of its network',
    (n: number) => (n % 2 === 0 ? `2001:db8:7::${n}` : `[2001:db8:7:0:1:2:3:${n}]:443`),
  ],
])('a sender that fails gets no further with %s', async (_, from) => {
  const statuses: number[] = [];
  for (let n = 0; n < limits.webhookFailuresMax + 2; n += 1) {
    statuses.push((await send(from(n), 'wrong')).status);
  }
  expect(statuses.slice(-3)).toEqual([401, 429, 429]);
});
