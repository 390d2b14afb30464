/** A repeated Idempotency-Key returns the first directive, whatever has changed since. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases } from '../support/instance.ts';
import { manifest, writePackage } from '../support/packages.ts';

const greeter = (version: string) =>
  manifest({
    version,
    config_schema: { type: 'object', properties: { word: { type: 'string' } } },
    requires: [{ plugin: 'echo', commands: ['poll'] }],
    plugins: { greeting: { uses: 'echo' } },
  });

describe.each(databases)('on %s', (database) => {
  let api: TestApi;
  let directory = '';
  beforeAll(async () => {
    api = await startApi({
      database,
      packages: { one: greeter('1.0.0') },
      prepare: async (made) => {
        directory = made;
      },
    });
  });
  afterAll(() => api.close());

  const post = (path: string, body: object, key: string): Promise<Reply> =>
    api.ask(path, { body: JSON.stringify(body), headers: { 'idempotency-key': key } });

  test('a package is installed, upgraded and uninstalled once for each key', async () => {
    const install = () => post('/packages/greeter/install', {}, 'install-1');
    const first = await install();
    expect(first.status).toBe(200);
    const same = { directive_id: first.body['directive_id'], version: '1.0.0' };
    await writePackage(join(directory, 'packages', 'two'), greeter('1.1.0'));
    expect(await install()).toMatchObject({ status: 200, body: same });

    const upgrade = () => post('/packages/greeter/upgrade', {}, 'upgrade-1');
    const upgraded = await upgrade();
    expect(upgraded.body).toMatchObject({ version: '1.1.0' });
    await writePackage(join(directory, 'packages', 'three'), greeter('1.2.0'));
    expect((await upgrade()).body).toEqual(upgraded.body);

    const uninstall = () => post('/packages/greeter/uninstall', {}, 'uninstall-1');
    const gone = await uninstall();
    expect(gone.status).toBe(200);
    expect(await install()).toMatchObject({ status: 200, body: same });
    const again = await post('/packages/greeter/install', {}, 'install-2');
    expect(again.body).toMatchObject({ version: '1.2.0' });
    expect((await uninstall()).body).toEqual(gone.body);
    expect((await upgrade()).body).toEqual(upgraded.body);

    // Another request under the same key is still refused.
    const other = { config: { word: 'x' } };
    expect(await post('/packages/greeter/install', other, 'install-1')).toMatchObject({
      status: 422,
      body: { code: 'IDEMPOTENCY_MISMATCH' },
    });
    const asDirective = { type: 'package.install', params: { package_slug: 'greeter' } };
    const keyed = { ...asDirective, idempotency_key: 'direct-1' };
    await post('/packages/greeter/uninstall', {}, 'uninstall-2');
    const directed = await post('/directives', keyed, 'http-1');
    expect(directed.body).toMatchObject({ status: 'completed' });
    for (const name of ['one', 'two', 'three'])
      await rm(join(directory, 'packages', name), { recursive: true });
    expect((await post('/directives', keyed, 'http-2')).body).toMatchObject({
      directive_id: directed.body['directive_id'],
      repeated: true,
    });
    expect(await install()).toMatchObject({ status: 200, body: same });
  });

  test('a secret is set once for each key, even after the keys that seal were rotated', async () => {
    const set = (value: string) => post('/credentials', { name: 'one', value }, 'set-1');
    const create = (id: string) =>
      post('/webhooks', { id, title: 'T', plugin: 'echo', secret: 'a-secret-of-theirs-123' }, id);
    const [first, webhook] = [await set('first-secret-value'), await create('hook-1')];
    expect([first.status, webhook.status]).toEqual([200, 201]);
    const rotated = await api.ask('/credentials/rotate-key', { body: '{}' });
    expect(rotated.status).toBe(200);
    expect((await set('first-secret-value')).body).toEqual(first.body);
    expect((await create('hook-1')).body).toMatchObject({
      directive_id: webhook.body['directive_id'],
    });
    expect(await set('another-secret-value')).toMatchObject({ status: 422 });
  });
});
