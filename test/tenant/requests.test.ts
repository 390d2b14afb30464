/** A tenant that sends plugins to the inside of the network, with the shipped packages. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually } from '../support/instance.ts';
import { pluginsRoot } from '../support/plugin-process.ts';
import { makeTenant } from '../support/tenants.ts';
import { startWebServer, type WebServer } from '../support/web-server.ts';

const roots = { plugins: pluginsRoot, packages: join(pluginsRoot, '../packages') };

describe('requests of a tenant', () => {
  let api: TestApi;
  let inside: WebServer;
  let tenant: Awaited<ReturnType<typeof makeTenant>>;

  beforeAll(async () => {
    inside = await startWebServer((_request, response) => response.end('secret of the inside'));
    api = await startApi({ tenants: { trust: 'isolated' }, roots });
    tenant = await makeTenant(api);
  });
  afterAll(() => api.close());

  async function failOf(path: string, payload: object): Promise<string> {
    const { body } = await tenant.post(path, { payload });
    return await eventually('it has ended', async () => {
      const { body: job, text } = await tenant.ask(`/job/${String(body['job_id'])}`);
      const isOver = ['failed', 'dead', 'succeeded'].includes(String(job['status']));
      return isOver ? text : undefined;
    });
  }

  test('do not reach this machine by the page that a package fetches', async () => {
    const config = { page: `${inside.url}/`, url: 'https://192.0.2.1/', every: '1h' };
    const opened = await tenant.post('/packages/page-changes/install', {
      config: { ...config, allow_private: true },
    });
    expect(opened.body).toMatchObject({ code: 'PACKAGE_REFUSED' });
    expect(opened.text).toContain('allow_private');
    expect((await tenant.post('/packages/page-changes/install', { config })).status).toBe(200);
    const text = await failOf('/plugin/page_changes_fetch/poll', {});
    expect(text).toContain('127.0.0.1, which must not be reached');
    expect(text).not.toContain('secret of the inside');
    expect(inside.received).toEqual([]);
  });

  /** The plugin's own tests cover the address; Python may be out of sight here. */
  test('are not opened to private networks by the address that a package notifies', async () => {
    const config = { folder: await makeDirectory(), url: `${inside.url}/`, every: '1h' };
    const opened = await tenant.post('/packages/folder-notify/install', {
      config: { ...config, allow_private: true },
    });
    expect(opened.body).toMatchObject({ code: 'PACKAGE_REFUSED' });
    expect(opened.text).toContain('plugins.folder_notify_tell.config.allow_private');
    const closed = { ...config, allow_private: false };
    const installed = await tenant.post('/packages/folder-notify/install', { config: closed });
    expect(installed.status).toBe(200);
  });
});
