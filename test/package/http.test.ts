/** Packages over the API: what is there, what is installed, who may change it, and whose it is. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';
import { manifest } from '../support/packages.ts';
import { dropTenants, makeTenant } from '../support/tenants.ts';

const greeter = manifest({
  requires: [{ plugin: 'echo', commands: ['poll'] }],
  config_schema: {
    type: 'object',
    properties: { word: { type: 'string', default: 'hello' } },
    additionalProperties: false,
  },
  plugins: { greeting: { uses: 'echo', config: { word: '${config.word}' } } },
  pipelines: [{ name: 'greet', on: 'greet.now', steps: [{ uses: 'greeting.poll' }] }],
  webhooks: [{ id: 'in', title: 'Greetings', signal: 'greet.came' }],
});

describe.each(databases)('packages over the API on %s', (database) => {
  let api: TestApi;
  const made: string[] = [];
  beforeAll(async () => {
    const broken = manifest({ slug: 'broken', script: 'x' });
    api = await startApi({ database, packages: { greeter, broken } });
  });
  afterAll(async () => {
    const { state } = api.server.instance.config;
    await api.close();
    await dropTenants(state, made);
  });

  const post = (path: string, body: object = {}, token?: string) =>
    api.ask(path, { body: JSON.stringify(body), ...(token === undefined ? {} : { token }) });

  test('are listed with those that cannot be used, and shown with what they ask for', async () => {
    const { body } = await api.ask('/packages');
    const mine = (body['packages'] as { slug: string }[]).filter(({ slug }) => slug === 'greeter');
    expect(mine).toMatchObject([{ version: '1.0.0', installed: null, status: null }]);
    const messages = (body['problems'] as { message: string }[]).map(({ message }) => message);
    expect(messages).toEqual([expect.stringContaining('script would be code')]);
    const shown = await api.ask('/packages/greeter');
    expect(shown.body).toMatchObject({
      requires: [{ plugin: 'echo', commands: ['poll'], version: null }],
      provides: [
        { kind: 'plugin', name: 'greeting' },
        { kind: 'pipeline', name: 'greet' },
        { kind: 'webhook', name: 'greeter-in' },
      ],
    });
    expect((await api.ask('/packages/greter')).body).toMatchObject({ code: 'PACKAGE_NOT_FOUND' });
  });

  test('are planned, installed, asked for again, and gone', async () => {
    const plan = await post('/packages/greeter/install', { dry_run: true });
    expect(plan.body).toMatchObject({ dry_run: true });
    expect((await api.ask('/installations')).body).toEqual({
      installations: [],
      next_cursor: null,
    });
    const wrong = await post('/packages/greeter/install', { config: { wrod: 'x' } });
    expect(wrong).toMatchObject({
      status: 400,
      body: { code: 'INPUT_INVALID', place: 'config.wrod' },
    });
    const unknown = await post('/packages/greetr/install');
    expect(unknown.body).toMatchObject({ code: 'PACKAGE_NOT_FOUND', place: 'greetr' });
    const { status, body } = await post('/packages/greeter/install', { config: { word: 'hi' } });
    expect(status).toBe(200);
    const short = String(body['directive_id']).slice(0, -4);
    expect((await api.ask(`/directives/${short}`)).body).toMatchObject({
      directive_id: body['directive_id'],
      signals: expect.arrayContaining([expect.objectContaining({ type: 'directive.completed' })]),
    });
    expect(body).toMatchObject({ package: 'greeter', version: '1.0.0' });
    const other = await post('/packages/greeter/install');
    expect(other).toMatchObject({ status: 409, body: { code: 'PACKAGE_INSTALLED' } });
    const shown = await api.ask('/installations/greeter');
    expect(shown.body).toMatchObject({ status: 'installed', config: { word: 'hi' }, revision: 1 });
    const ran = await post('/pipeline/greet', { payload: {} });
    expect(ran.status).toBeLessThan(300);
    const off = await post('/packages/greeter/disable');
    expect(off.status).toBe(200);
    expect((await post('/pipeline/greet', { payload: {} })).status).toBe(404);
    expect((await post('/packages/greeter/enable')).status).toBe(200);
    expect((await post('/packages/greeter/uninstall', { purge: true })).status).toBe(200);
    expect((await api.ask('/installations')).body).toEqual({
      installations: [],
      next_cursor: null,
    });
    const ended = (await api.ask('/installations?all=true')).body['installations'];
    expect(ended).toMatchObject([{ package: 'greeter', status: 'uninstalled' }]);
    expect((await post('/packages/greeter/enable')).body).toMatchObject({
      code: 'INSTALLATION_NOT_FOUND',
    });
  });

  test('are for admins to change, and for readers to see', async () => {
    const token = async (name: string, scopes: string[], role?: string): Promise<string> => {
      const sent = { name: `${name}-${database}`, scopes, ...(role === undefined ? {} : { role }) };
      return String((await post('/tokens', sent)).body['token']);
    };
    const reader = await token('reader', ['packages:ro', 'installations:ro']);
    const writer = await token('writer', ['packages:rw']);
    expect((await api.ask('/packages', { token: reader })).status).toBe(200);
    expect((await api.ask('/installations', { token: reader })).status).toBe(200);
    const install = '/packages/greeter/install';
    expect((await post(install, {}, reader)).status).toBe(403);
    // Its scope would do, but it is no admin.
    expect((await post(install, { dry_run: true }, writer)).status).toBe(403);
  });

  test('belong to the tenant that installs them, and to no other', async () => {
    const [one, two] = [await makeTenant(api), await makeTenant(api)];
    made.push(one.slug, two.slug);
    const installed = await one.post('/packages/greeter/install', { config: { word: 'theirs' } });
    expect(installed.status).toBe(200);
    const ran = await one.post('/plugin/greeting/poll', { payload: {} });
    expect(ran.status).toBeLessThan(300);
    const job = String(ran.body['job_id']);
    await eventually(
      'it ran',
      async () => (await one.ask(`/job/${job}`)).body['status'] === 'succeeded',
    );
    expect((await two.ask('/installations')).body).toEqual({
      installations: [],
      next_cursor: null,
    });
    expect((await two.post('/plugin/greeting/poll', { payload: {} })).status).toBe(404);
    expect((await api.ask('/installations')).body).toEqual({
      installations: [],
      next_cursor: null,
    });
    // An address belongs to one webhook, even if other tenants have the same package.
    const other = await two.post('/packages/greeter/install');
    for (const [tenant, { body }] of [
      [one, installed],
      [two, other],
    ] as const) {
      const id = `${tenant.slug}-greeter-in`;
      const [hook] = body['webhooks'] as { id: string; path: string; secret: string }[];
      expect(hook).toMatchObject({ id, path: `/hooks/${id}` });
      const sent = await api.ask(`/hooks/${id}`, { body: '{}', token: hook?.secret ?? '' });
      expect(sent.status).toBe(202);
      expect((await tenant.ask('/signals?type=greet.came')).body['signals']).toHaveLength(1);
    }
    await two.post('/packages/greeter/uninstall');
    expect((await api.ask(`/hooks/${two.slug}-greeter-in`, { body: '{}' })).status).toBe(404);
    const { body } = await one.ask('/signals?type=package.install.completed');
    expect(body['signals']).toMatchObject([
      {
        dedupe_key: `pkg_install_done:${one.slug}:${String(installed.body['installation_id'])}:1.0.0`,
      },
    ]);
  });
});
