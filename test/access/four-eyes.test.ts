/** Admins don't become owners, and a user can't approve their own request under another name. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OWNER, startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases } from '../support/instance.ts';
import { manifest } from '../support/packages.ts';
import { writePlugin } from '../support/plugin-tree.ts';

const pusher = (version: string, command: string) =>
  manifest({
    slug: 'pusher',
    version,
    requires: [{ plugin: 'runner', commands: ['run'] }],
    config_schema: {
      type: 'object',
      properties: {
        command: { type: 'array', items: { type: 'string' } },
        cwd: { type: 'string' },
      },
      additionalProperties: false,
    },
    plugins: {
      pusher_run: {
        uses: 'runner',
        config: { commands: { [command]: '${config.command}' }, cwd: '${config.cwd}' },
      },
    },
  });

describe.each(databases)('on %s', (database) => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi({
      database,
      prepare: async (directory) => {
        await writePlugin(join(directory, 'plugins', 'runner'), {
          name: 'runner',
          commands: 'commands: {run: {}}',
          extra: 'config_keys: {required: [commands], operator: [commands], optional: [cwd]}',
        });
      },
      packages: { one: pusher('1.0.0', 'on_push'), two: pusher('1.1.0', 'after_push') },
      directives: {
        approval: { 'system.prune': [], 'token.create': [], 'job.retry': ['token:boss'] },
      },
      api: {
        auth: {
          tokens: [
            { name: 'owner', token: OWNER, scopes: ['*'] },
            { name: 'ops', token: 'ops-token-0123456789', scopes: ['system:rw', 'directives:rw'] },
          ],
        },
      },
    });
  });
  afterAll(() => api.close());

  const post = (path: string, body: object, token: string = OWNER): Promise<Reply> =>
    api.ask(path, { body: JSON.stringify(body), token });

  /** A token of the database, approved by the owner where that is needed. */
  async function makeToken(name: string, may: object, as: string = OWNER): Promise<string> {
    const response = await post('/tokens', { name, ...may }, as);
    expect([response.status, response.text]).toEqual([202, expect.any(String)]);
    const id = String(response.body['directive_id']);
    expect((await post(`/directives/${id}/approve`, {})).body).toMatchObject({
      status: 'completed',
    });
    return String(response.body['token']);
  }

  describe('config keys that a manifest marks as operator', () => {
    const commands = { config: { command: ['id'] } };

    test('are set by owners alone, whichever request installs the package', async () => {
      const admin = await makeToken('installer', { role: 'admin' });
      const refused = { status: 403, body: { code: 'FORBIDDEN' } };
      expect(
        await post('/packages/pusher/install', { ...commands, version: '1.0.0' }, admin),
      ).toMatchObject({
        ...refused,
        body: { detail: expect.stringContaining('plugins.pusher_run.config.commands') },
      });
      expect(
        await post('/packages/pusher/install', { ...commands, dry_run: true }, admin),
      ).toMatchObject(refused);
      const params = { package_slug: 'pusher', version: '1.0.0', ...commands };
      const request = { type: 'package.install', params };
      expect(await post('/directives', request, admin)).toMatchObject(refused);
      expect(await post('/directives', { ...request, delay: '1h' }, admin)).toMatchObject(refused);

      const done = await post('/packages/pusher/install', { ...commands, version: '1.0.0' });
      expect(done.status).toBe(200);
      // Another command, and the same command under another name.
      for (const change of [
        { version: '1.0.0', config: { command: ['whoami'] } },
        { version: '1.1.0' },
      ]) {
        const upgrade = await post('/packages/pusher/upgrade', change, admin);
        expect([change, upgrade.status]).toEqual([change, 403]);
      }
    });

    test('do not keep an admin from changing everything else', async () => {
      const admin = await makeToken('keeper', { role: 'admin' });
      const other = { version: '1.0.0', config: { command: ['id'], cwd: '/tmp' } };
      expect((await post('/packages/pusher/upgrade', other, admin)).status).toBe(200);
      for (const verb of ['disable', 'enable', 'uninstall']) {
        expect((await post(`/packages/pusher/${verb}`, {}, admin)).status).toBe(200);
      }
    });
  });

  describe('an approval', () => {
    const prune = { type: 'system.prune', params: { what: ['facts'] } };

    async function request(token: string): Promise<string> {
      const response = await post('/directives', prune, token);
      expect(response.body).toMatchObject({ awaiting_approval: true });
      return String(response.body['directive_id']);
    }
    const approve = (id: string, token: string): Promise<Reply> =>
      post(`/directives/${id}/approve`, {}, token);

    test('is not given with another token of the same person', async () => {
      const ann = await makeToken('ann', { role: 'admin' });
      const second = await makeToken('ann-2', { role: 'admin' }, ann);
      const third = await makeToken('ann-3', { role: 'admin' }, second);
      const fourth = await makeToken('ann-4', { role: 'admin' }, ann);
      const own = [ann, second, third, fourth];
      for (const requester of own) {
        const id = await request(requester);
        for (const approver of own) {
          expect(await approve(id, approver)).toMatchObject({
            status: 403,
            body: { code: 'FORBIDDEN' },
          });
        }
        await post(`/directives/${id}/cancel`, {});
      }
    });

    test('is given by another person, with a token from an owner', async () => {
      const [carl, dora] = [
        await makeToken('carl', { role: 'admin' }),
        await makeToken('dora', { role: 'admin' }),
      ];
      const id = await request(carl);
      expect((await approve(id, dora)).body).toMatchObject({ status: 'completed' });
      // Tokens of the configuration are persons of their own.
      const next = await request(dora);
      expect((await approve(next, 'ops-token-0123456789')).body).toMatchObject({
        status: 'completed',
      });
    });

    test('is not given by a token that the requester made, even if that one is an owner', async () => {
      const own = await makeToken('from-owner', { role: 'admin' });
      const id = await request(OWNER);
      expect((await approve(id, own)).status).toBe(403);
      expect((await approve(id, OWNER)).status).toBe(200);
    });
  });

  describe('the name of a token', () => {
    test('is never given again, and the refusal says so', async () => {
      const eve = await makeToken('eve', { role: 'admin' });
      await makeToken('eve-helper', { role: 'admin' }, eve);
      expect((await post('/tokens/eve-helper/revoke', {}, eve)).status).toBe(200);
      for (const name of ['eve-helper', 'eve', 'owner']) {
        const again = await post('/tokens', { name, role: 'member' });
        expect([name, again.status, again.body['code']]).toEqual([name, 409, 'TOKEN_EXISTS']);
      }
      const { body } = await post('/tokens', { name: 'eve-helper', role: 'member' });
      expect(body['detail']).toMatch(/eve-helper.*revoked/);
      expect(body['hint']).toContain('another name');
    });

    test('that the configuration lists as an approver is given by an owner alone', async () => {
      const fay = await makeToken('fay', { role: 'admin' });
      expect(await post('/tokens', { name: 'boss', role: 'admin' }, fay)).toMatchObject({
        status: 403,
        body: { place: 'name' },
      });
      expect((await post('/tokens', { name: 'boss', role: 'admin' })).status).toBe(202);
    });
  });

  test('a token is accepted once its creation was approved, and not before', async () => {
    const response = await post('/tokens', { name: 'ghost', role: 'admin' });
    expect(response).toMatchObject({
      status: 202,
      body: { awaiting_approval: true, token_id: null, token: expect.stringMatching(/^duct_/) },
    });
    const token = String(response.body['token']);
    expect((await api.ask('/tokens', { token })).status).toBe(401);
    const id = String(response.body['directive_id']);
    const shown = await api.ask(`/directives/${id}`);
    expect(shown.text).not.toContain(token);
    await post(`/directives/${id}/approve`, {});
    expect((await api.ask('/tokens', { token })).status).toBe(200);
    // A caller doesn't choose what a token is recognized by.
    const params = { name: 'chosen', scopes: ['*'], digest: 'a'.repeat(64) };
    expect((await post('/directives', { type: 'token.create', params })).status).toBe(400);
  });
});
