/** A confined process sees what the current configuration allows, not that of the service's start. */
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeIsolation } from '../../src/app/instance.ts';
import type { Isolation } from '../../src/plugin/isolation.ts';
import { makeSpec } from '../support/hosts.ts';
import { makeDirectory } from '../support/directory.ts';
import { makePlace } from '../support/instance.ts';

test.runIf(process.platform === 'linux')(
  'a confined process does not see a path that a reload added',
  async () => {
    const directory = await realpath(await makeDirectory());
    const added = join(directory, 'more.yaml');
    await writeFile(added, '');
    const root = join(directory, 'plugins');
    await mkdir(root);
    const { config } = await makePlace({});
    const isolation = makeIsolation();
    const before = isolation(config);
    expect(profileOf(before)).not.toContain(`hide ${added}`);
    // No path has changed, so the tiers are not tried again.
    expect(isolation({ ...config })).toBe(before);
    const [file] = config.files;
    if (file === undefined) throw new Error('it has no file');
    const next = isolation({
      ...config,
      files: [...config.files, { ...file, path: added }],
      pluginRoots: [...config.pluginRoots, { path: root, place: '' }],
    });
    expect(profileOf(next)).toContain(`hide ${added}`);
    expect(profileOf(next)).toContain(`read ${root}`);
  },
);

function profileOf({ confine }: Isolation): string[] {
  const rules = { network: 'host', read: [], write: [] } as const;
  return confine(makeSpec('/bin/true'), rules, 'x').wrapper?.[2]?.split('\n') ?? [];
}
