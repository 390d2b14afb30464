/** What plugins of tenants may not see follows the configuration, not the start of the process. */
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeIsolation } from '../../../src/app/isolate.ts';
import { makeDirectory } from '../../support/directory.ts';
import { makePlace } from '../../support/instance.ts';

test.runIf(process.platform === 'linux')('what a reload adds is hidden, too', async () => {
  const directory = await realpath(await makeDirectory());
  const added = join(directory, 'more.yaml');
  await writeFile(added, '');
  const root = join(directory, 'plugins');
  await mkdir(root);
  const { config } = await makePlace({});
  const isolation = makeIsolation();
  const before = isolation(config);
  expect(before.wrapper).not.toContain(added);
  // Nothing that matters here is another, so nobody has to find out again.
  expect(isolation({ ...config })).toBe(before);
  const [file] = config.files;
  if (file === undefined) throw new Error('it has no file');
  const next = isolation({
    ...config,
    files: [...config.files, { ...file, path: added }],
    pluginRoots: [...config.pluginRoots, { path: root, place: '' }],
  });
  expect(next.wrapper).toContain(added);
  expect(next.wrapper).toContain(root);
});
