/** A tenant can't choose a file that the shipped packages write, and the operator can. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually } from '../support/instance.ts';
import { pluginsRoot } from '../support/plugin-process.ts';
import { makeTenant } from '../support/tenants.ts';

test('only the operator says which file folder-notify writes', async () => {
  const folder = await makeDirectory();
  const victim = join(await makeDirectory(), 'script');
  await writeFile(victim, '#!/bin/sh\n');
  const packages = await makeDirectory();
  const api = await startApi({ roots: { plugins: pluginsRoot, packages } });
  onTestFinished(() => api.close());
  const tenant = await makeTenant(api);
  const path = '/packages/folder-notify/install';
  const config = { folder, file: victim, every: '1s' };
  const refused = await tenant.post(path, { config });
  expect(refused.body).toMatchObject({ code: 'PACKAGE_REFUSED' });
  expect(refused.text).toContain('plugins.folder_notify_tell.config.file');
  const toUrl = { folder, url: 'https://hooks.example.org/x' };
  expect((await tenant.post(path, { config: toUrl })).status).toBe(200);

  expect((await api.ask(path, { body: JSON.stringify({ config }) })).status).toBe(200);
  await eventually('it watches', async () => {
    const { text } = await api.ask('/jobs?plugin=folder_notify_watch&status=succeeded');
    return text.includes('folder_notify_watch');
  });
  await writeFile(join(folder, 'new.pdf'), 'x');
  await eventually('it has notified', async () =>
    (await readFile(victim, 'utf8')).includes('new.pdf'),
  );
  expect(await readFile(victim, 'utf8')).toMatch(/^#!\/bin\/sh\n/);
});
