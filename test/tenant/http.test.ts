/** Tenants as the operator has them: made, limited, suspended, removed, and what their plugins see. */
import { readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readControlKey } from '../../src/http/control-socket.ts';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';
import { manifest } from '../support/packages.ts';
import { writePlugin } from '../support/plugin-tree.ts';
import { dropTenants, makeSlug, makeTenant } from '../support/tenants.ts';

describe.each(databases)('tenants on %s', (database) => {
  let api: TestApi;
  const made: string[] = [];
  beforeAll(async () => {
    api = await startApi({ database, plugins: { echo: { shared: true } } });
  });
  afterAll(async () => {
    const { state } = api.server.instance.config;
    await api.close();
    await dropTenants(state, made);
  });

  const post = (path: string, body: object = {}, token?: string): Promise<Reply> =>
    api.ask(path, { body: JSON.stringify(body), ...(token === undefined ? {} : { token }) });

  async function make(more: object = {}) {
    const tenant = await makeTenant(api, more);
    made.push(tenant.slug);
    return tenant;
  }

  test('are made with the token of their owner, and gone when they are deleted', async () => {
    const slug = makeSlug();
    const plan = await post('/tenants', { slug, dry_run: true });
    expect(plan.body).toMatchObject({ dry_run: true });
    expect((await api.ask(`/tenants/${slug}`)).status).toBe(404);
    const answer = await post('/tenants', { slug, title: 'Acme' });
    expect(answer.status).toBe(201);
    expect(answer.body).toMatchObject({ slug, status: 'active', token_name: 'owner' });
    const token = String(answer.body['token']);
    const jobs = await api.ask('/jobs', { token });
    expect([jobs.status, jobs.body['jobs']]).toEqual([200, []]);
    expect((await post('/tenants', { slug })).body).toMatchObject({ code: 'TENANT_EXISTS' });
    const unsure = await post(`/tenants/${slug}/delete`, { confirm: 'other' });
    expect(unsure.body).toMatchObject({ code: 'INPUT_INVALID' });
    const gone = await post(`/tenants/${slug}/delete`, { confirm: slug });
    expect(gone.body).toMatchObject({ deleted: true });
    expect((await api.ask('/jobs', { token })).status).toBe(401);
    // The name is free again, and what it had is not there.
    const again = await post('/tenants', { slug });
    made.push(slug);
    expect(again.status).toBe(201);
    expect((await api.ask('/jobs', { token })).status).toBe(401);
  });

  test.each(['root', 'Acme', '9lives', 'a-b', `a${'b'.repeat(40)}`, '../x', ''])(
    'the name %j is refused',
    async (slug) => {
      expect((await post('/tenants', { slug })).body).toMatchObject({ code: 'INPUT_INVALID' });
    },
  );

  test('a suspended one does nothing new, and can still be looked at', async () => {
    const tenant = await make();
    expect((await post(`/tenants/${tenant.slug}/suspend`)).body).toMatchObject({
      status: 'suspended',
    });
    await eventually('its engine knows', async () => {
      const { body } = await tenant.post('/plugin/echo/poll');
      return body['code'] === 'TENANT_SUSPENDED';
    });
    expect((await tenant.ask('/jobs')).status).toBe(200);
    const paused = await tenant.post('/directives', { type: 'system.pause', params: {} });
    expect(paused.body).toMatchObject({ status: 'completed' });
    await post(`/tenants/${tenant.slug}/resume`);
    await eventually('it may work again', async () => {
      const { status } = await tenant.post('/plugin/echo/poll');
      return status < 300;
    });
  });

  test('limits are set one by one, and null takes one away', async () => {
    const { slug } = await make({ workers: 2 });
    await post(`/tenants/${slug}/limit`, { queue_length: 10 });
    expect((await api.ask(`/tenants/${slug}`)).body['limits']).toMatchObject({
      workers: 2,
      queue_length: 10,
    });
    await post(`/tenants/${slug}/limit`, { workers: null });
    expect((await api.ask(`/tenants/${slug}`)).body['limits']).toMatchObject({ workers: null });
  });

  test("a caller can't create a token with more rights than its own", async () => {
    const tenant = await make();
    const admin = await tenant.makeToken('boss', { role: 'admin' });
    const member = await tenant.makeToken('hand', { role: 'member' });
    const ask = async (token: string, may: object): Promise<unknown> =>
      (await tenant.post('/tokens', { name: `new-${Math.random()}`, ...may }, token)).status;
    expect(await ask(admin, { role: 'member' })).toBe(201);
    expect(await ask(admin, { scopes: ['jobs:rw'] })).toBe(201);
    expect(await ask(admin, { role: 'owner' })).toBe(403);
    expect(await ask(admin, { scopes: ['*'] })).toBe(403);
    expect(await ask(admin, { scopes: ['tenants:rw'] })).toBe(403);
    expect(await ask(member, { scopes: ['jobs:ro'] })).toBe(403);
    expect((await tenant.post('/tokens/owner/revoke', {}, admin)).status).toBe(403);
    expect((await tenant.post('/tokens/hand/revoke', {}, admin)).status).toBe(200);
    expect((await tenant.ask('/jobs', member)).status).toBe(401);
  });

  test('a lost token is made good for by the operator', async () => {
    const tenant = await make();
    await tenant.post('/tokens/owner/revoke');
    expect((await tenant.ask('/jobs')).status).toBe(401);
    const spare = await post(`/tenants/${tenant.slug}/token`, { name: 'spare' });
    expect(spare.status).toBe(201);
    expect((await tenant.ask('/jobs', String(spare.body['token']))).status).toBe(200);
  });

  test('the control socket asks for a token or for the key of the state directory', async () => {
    const tenant = await make();
    const { control } = api.server.surfaces;
    const key = readControlKey(control, {
      stateDir: api.server.instance.config.state.dir,
    });
    const ask = (path: string, authorization?: string) => askSocket(control, path, authorization);
    expect((await ask('/jobs')).status).toBe(401);
    expect((await ask('/tenants', `Control ${key}`)).status).toBe(200);
    expect((await ask('/tenants', `Control ${'0'.repeat(64)}`)).status).toBe(401);
    expect((await ask('/jobs', `Bearer ${tenant.token}`)).status).toBe(200);
    expect((await ask('/tenants', `Bearer ${tenant.token}`)).status).toBe(403);
  });
});

async function askSocket(
  socketPath: string,
  path: string,
  authorization?: string,
): Promise<{ status: number; text: string }> {
  const headers = { host: 'x', ...(authorization === undefined ? {} : { authorization }) };
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath, path, agent: false, headers }, (response) => {
      void text(response).then((said) => resolve({ status: response.statusCode ?? 0, text: said }));
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}

/** Says what it could read. */
const looks = `#!/bin/sh
cat > /dev/null
seen=""
for file in "$PWD/../../config.yaml" "$PWD/../../state/ledger.db"; do
  head -c 1 "$file" > /dev/null 2>&1 && seen="$seen $(basename "$file")"
done
echo "{\\"status\\":\\"ok\\",\\"result\\":\\"saw:$seen\\"}"
`;

describe.runIf(process.platform === 'linux')('plugins', () => {
  async function start(trust: 'isolated' | 'shared'): Promise<TestApi> {
    return await startApi({
      plugins: { spy: { shared: true }, echo: { shared: true } },
      tenants: { trust },
      prepare: async (directory) => {
        const files = { name: 'spy', entrypoint: 'run', program: looks };
        await writePlugin(join(directory, 'plugins', 'spy'), files);
      },
    });
  }

  /** The files that a plugin of a tenant could read. */
  async function look(trust: 'isolated' | 'shared'): Promise<unknown> {
    const api = await start(trust);
    try {
      const tenant = await makeTenant(api);
      const jobId = String((await tenant.post('/plugin/spy/poll')).body['job_id']);
      return await eventually('it has looked', async () => {
        const { body } = await tenant.ask(`/job/${jobId}`);
        return body['status'] === 'succeeded' && body['result'];
      });
    } finally {
      await api.close();
    }
  }

  test('see neither the ledgers nor the configuration of other tenants', async () => {
    expect(JSON.stringify(await look('isolated'))).toMatch(/"saw:"/);
  });

  test('see them where the operator says that all trust each other', async () => {
    expect(JSON.stringify(await look('shared'))).toContain('config.yaml ledger.db');
  });

  describe('the programs of plugins', () => {
    const packaged = manifest({
      slug: 'runs',
      requires: [{ plugin: 'runner' }],
      config_schema: { type: 'object', properties: { programs: { type: ['array', 'boolean'] } } },
      plugins: { runs: { uses: 'runner', config: { programs: '${config.programs}' } } },
    });
    const config = { programs: ['anything'] };

    const send = (api: TestApi, path: string, body: object = {}): Promise<Reply> =>
      api.ask(path, { body: JSON.stringify(body) });

    const begin = (trust: 'isolated' | 'shared'): Promise<TestApi> =>
      startApi({
        packages: { runs: packaged },
        tenants: { trust },
        prepare: async (directory) => {
          const extra = 'config_keys: { operator: [programs] }';
          const files = { name: 'runner', entrypoint: 'run', program: looks, extra };
          await writePlugin(join(directory, 'plugins', 'runner'), files);
        },
      });

    test('is not for a tenant to say, but for the operator', async () => {
      const api = await begin('isolated');
      onTestFinished(() => api.close());
      const tenant = await makeTenant(api);
      const plan = await tenant.post('/packages/runs/install', { config, dry_run: true });
      expect(plan.body).toMatchObject({ code: 'PACKAGE_REFUSED' });
      const refused = await tenant.post('/packages/runs/install', { config });
      expect(refused.text).toContain(
        'plugins.runs.config.programs gives access to programs, files or networks',
      );
      expect((await tenant.ask('/installations')).body).toEqual({
        installations: [],
        next_cursor: null,
      });
      // Without it, the package does what the plugin does by itself; `false` allows nothing either.
      const off = await tenant.post('/packages/runs/install', { config: { programs: false } });
      expect(off.status).toBe(200);
      const changed = await tenant.post('/packages/runs/upgrade', { config });
      expect(changed.body).toMatchObject({ code: 'PACKAGE_REFUSED' });
      expect((await send(api, '/packages/runs/install', { config })).status).toBe(200);
    });

    test('is for them to say where all trust each other, and only as long', async () => {
      const api = await begin('shared');
      onTestFinished(() => api.close());
      const tenant = await makeTenant(api);
      expect((await tenant.post('/packages/runs/install', { config })).status).toBe(200);
      expect((await tenant.post('/plugin/runs/poll')).status).toBe(202);
      const { file } = api.server.instance.config;
      const written = await readFile(file, 'utf8');
      await writeFile(file, written.replace('"trust":"shared"', '"trust":"isolated"'));
      expect((await send(api, '/system/reload')).status).toBe(200);
      await eventually('it is out of force', async () => {
        const { body } = await tenant.ask('/installations/runs');
        return String(body['last_error']).includes('gives access to programs, files or networks');
      });
      expect((await tenant.post('/plugin/runs/poll')).status).toBe(404);
    });
  });
});
