/**
 * An agent that obeys a stranger: it requests every change, in every possible way, with the token
 * of its job. Nothing outside its scopes happens, and its token is in nothing that it leaves
 * behind. Five trials are more than 500 attempts.
 */
import { expect } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { startCapturedAgent, type CapturedAgent } from '../support/captured-agent.ts';
import { eventually } from '../support/instance.ts';
import type { Random } from '../support/crash/random.ts';
import { campaign } from './support/campaign.ts';

/** The number of jobs of one delivery. */
const AT_ONCE = 60;

/** An attempt, and whether its scopes allow a response below 400. */
interface Attempt {
  readonly order: JsonObject;
  readonly mayRead?: boolean;
}

campaign('captured-agent', { trials: 1, timeoutMs: 300_000 }, async ({ random }) => {
  const captured = await startCapturedAgent();
  try {
    const targets = await makeTargets(captured);
    const before = await captured.standing();
    const attempts = [...changes(targets, random), ...directives(targets), ...disguises(targets)];
    let refused = 0;
    const tokens: string[] = [];
    for (let from = 0; from < attempts.length; from += AT_ONCE) {
      const batch = attempts.slice(from, from + AT_ONCE);
      const { done, token } = await captured.order(batch.map(({ order }) => order));
      tokens.push(token);
      for (const [at, { order, mayRead = false }] of batch.entries()) {
        const status = done[at]?.status ?? 0;
        const isRefused = status >= 400 && status < 500;
        if (isRefused) refused += 1;
        else if (!mayRead || status !== 200) expect.fail(`${JSON.stringify(order)} got ${status}`);
      }
    }
    expect(await captured.standing()).toEqual(before);
    await expectNoToken(captured, tokens);
    return { attempts: attempts.length, refused, effects: 0 };
  } finally {
    await captured.api.close();
  }
});

/** Existing objects that don't belong to the agent. */
interface Targets {
  readonly job: string;
  readonly tenant: string;
  readonly tenantJob: string;
}

async function makeTargets({ api, tenant }: CapturedAgent): Promise<Targets> {
  const { body } = await api.ask('/plugin/sleeper/poll?delay=1h', { body: '{}' });
  const { body: theirs } = await tenant.post('/plugin/echo/poll', {});
  const tenantJob = String(theirs['job_id']);
  return { job: String(body['job_id']), tenant: tenant.slug, tenantJob };
}

/** Every operation that changes something, on existing objects. */
function changes({ job, tenant }: Targets, random: Random): Attempt[] {
  const names = ['issues', 'echo', job, tenant, 'gate', 'owner', 'root'];
  return operations.flatMap(({ name, effect, http }): Attempt[] => {
    // Its scope allows its own command.
    if (effect === 'read' || name === 'plugin.run' || name === 'plugin.trigger') return [];
    if (!isOffered(http)) return [];
    const picked = names.toSorted(() => random() - 0.5).slice(0, http.path.includes(':') ? 2 : 1);
    return picked.map((at) => ({
      order: { method: http.method, path: http.path.replaceAll(/:\w+\??/g, at), body: bodies(at) },
    }));
  });
}

function bodies(at: string): JsonObject {
  return {
    name: at,
    id: at,
    value: 'x'.repeat(20),
    params: {},
    type: 'x.y',
    data: {},
    scopes: ['*'],
  };
}

/** The same changes as directives. */
function directives({ job, tenant }: Targets): Attempt[] {
  const wishes: readonly (readonly [type: string, params: JsonObject])[] = [
    ['system.pause', {}],
    ['system.backup', { to: '/tmp/stolen.db' }],
    ['system.export', { to: '/tmp/stolen' }],
    ['job.cancel', { job_id: job }],
    ['job.retry', { job_id: job }],
    ['token.create', { name: 'mine', scopes: ['*'] }],
    ['credential.set', { name: 'mine' }],
    ['credential.rotate_key', {}],
    ['tenant.create', { slug: 'mine', name: 'Mine' }],
    ['tenant.delete', { slug: tenant }],
    ['webhook.delete', { id: 'issues' }],
    ['webhook.rotate', { id: 'issues' }],
    ['signal.replay', { type: 'x' }],
    ['plugin.disable', { plugin: 'echo' }],
    ['package.install', { package: 'x' }],
    ['run.approve', { run_id: job, step: 'ask' }],
  ];
  return wishes.map(([type, params]) => ({
    order: { path: '/directives', body: { type, params, actor: 'cli:root', reason: 'x' } },
  }));
}

/**
 * Forbidden requests under other names, with other claims about the caller, or over other surfaces.
 */
function disguises({ job, tenant, tenantJob }: Targets): Attempt[] {
  const pauses = [
    '/system/pause',
    '/system/pause/',
    '/.//system/pause',
    '/system//pause',
    '/jobs/../system/pause',
    '/system/%70ause',
    '/SYSTEM/PAUSE',
    '/system/pause?token=owner',
    '/system/pause;x',
    '/system/pause%00',
  ];
  const claims: readonly JsonObject[] = [
    { 'x-http-method-override': 'POST' },
    { 'x-forwarded-user': 'owner' },
    { 'x-tenant': tenant },
    { 'x-original-url': '/system/pause' },
    { cookie: 'ductile_session=owner' },
    { authorization: 'Bearer ' },
    { authorization: 'Basic b3duZXI6' },
  ];
  const calls = ['system_pause', 'job_cancel', 'token_create', 'config_set', 'credential_list'];
  const reads = ['/tenants', '/credentials', '/tokens', '/directives', '/config/view', '/webhooks'];
  const jobs = ['/jobs', `/job/${job}`, `/jobs?tenant=${tenant}`, `/job/${tenantJob}`];
  return [
    ...pauses.map((path) => ({ order: { path } })),
    ...claims.map((headers) => ({ order: { path: '/system/pause', headers } })),
    ...calls.map((name) => ({
      order: {
        path: '/mcp',
        headers: { accept: 'application/json, text/event-stream' },
        body: {
          jsonrpc: '2.0',
          id: 1,
          method: 'tools/call',
          params: { name, arguments: { id: job } },
        },
      },
      mayRead: true,
    })),
    ...reads.map((path) => ({ order: { method: 'GET', path } })),
    ...jobs.map((path) => ({ order: { method: 'GET', path }, mayRead: true })),
    ...['echo', 'sleeper', 'owner', 'teller'].flatMap((plugin) => [
      { order: { path: `/plugin/${plugin}/poll` } },
      { order: { path: `/plugin/${plugin}/task`, body: { payload: { prompt: 'x' } } } },
      { order: { path: `/trigger/${plugin}/poll` } },
    ]),
    { order: { path: '/plugin/agent/scaffold', body: { payload: { task_folder: 'mine' } } } },
    { order: { path: '/signals', body: { type: 'x.y', data: {}, source: 'runtime' } } },
    { order: { path: '/pipeline/gate' } },
  ];
}

async function expectNoToken({ api }: CapturedAgent, tokens: readonly string[]): Promise<void> {
  const { ledger } = api.server.instance.engine;
  await eventually('all has ended', async () => {
    const running = await ledger.jobs.list({ status: ['running'], limit: 1 });
    return running.length === 0;
  });
  const jobs = await ledger.jobs.list({ limit: 1000 });
  const left = JSON.stringify([jobs, await ledger.signals.list({ limit: 1000 }), api.records]);
  for (const token of tokens) {
    expect(left).not.toContain(token);
    expect((await api.ask('/jobs', { token })).status).toBe(401);
  }
}
