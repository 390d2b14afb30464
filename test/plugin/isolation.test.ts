/** What a process sees that is kept out of directories, by each way there is. */
import { chmodSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeHost } from '../../src/plugin/host.ts';
import { confined, findIsolation, type Isolation } from '../../src/plugin/isolation.ts';
import type { Host } from '../../src/plugin/process.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeSpec, nodeScript, nothing, optionsOf, useNativeSpawner } from '../support/hosts.ts';

const spawner = useNativeSpawner();
const path = process.env['PATH'];

interface House {
  readonly directory: string;
  readonly isolation: Isolation;
  readonly run: (script: string) => Promise<{ out: string; code: unknown }>;
}

/** Ways that this machine has; Landlock and bubblewrap are Linux's own. */
const ways = ['landlock', 'bubblewrap'] as const;

describe.runIf(process.platform === 'linux').each(ways)('with %s', (tier) => {
  describe.each(['native', 'node'] as const)('over the %s spawner', (build) => {
    let host: Host;
    beforeAll(async () => {
      host = makeHost({ ...optionsOf(build, spawner.pathOf(build)), nodeScript, log: () => {} });
      await host.start();
    });
    afterAll(() => host.stop());

    async function makeHouse(): Promise<House> {
      const directory = realpathSync(await makeDirectory());
      for (const name of ['state', 'config', 'config/plugins', 'other']) {
        mkdirSync(join(directory, name));
        writeFileSync(join(directory, name, 'file'), `of ${name}`);
      }
      const isolation = findIsolation({
        nativePath: tier === 'landlock' ? spawner.pathOf('native') : '/nowhere',
        hidden: [join(directory, 'state'), join(directory, 'config')],
        readable: [join(directory, 'config', 'plugins')],
        path: tier === 'landlock' ? '' : path,
      });
      let count = 0;
      return {
        directory,
        isolation,
        async run(script) {
          const entrypoint = join(directory, 'config', 'plugins', `program-${(count += 1)}`);
          writeFileSync(entrypoint, `#!/bin/sh\n${script}\n`);
          chmodSync(entrypoint, 0o755);
          const spec = makeSpec('', { entrypoint, env: { PATH: path ?? '' } });
          const end = await confined(host, () => isolation.wrapper).run(spec, nothing);
          return { out: end.stdout.toString(), code: end.exit };
        },
      };
    }

    test('what is hidden cannot be read, listed or written', async ({ skip }) => {
      const { directory, isolation, run } = await makeHouse();
      skip(isolation.tier !== tier, `${tier} does not work here`);
      const { out } = await run(`
        for d in state config; do
          cat ${directory}/$d/file 2> /dev/null && echo read $d
          ls ${directory}/$d 2> /dev/null | grep -q file && echo listed $d
          echo mine 2> /dev/null > ${directory}/$d/file && echo wrote $d
        done
        echo end`);
      // What bubblewrap puts there is empty, and gone with the process.
      expect(out.replaceAll(/wrote \w+\n/g, tier === 'bubblewrap' ? '' : '$&')).toBe('end\n');
      expect(readFileSync(join(directory, 'state', 'file'), 'utf8')).toBe('of state');
      expect(readFileSync(join(directory, 'config', 'file'), 'utf8')).toBe('of config');
    });

    test('plugins can be read but not changed, everything else is as it was', async ({ skip }) => {
      const { directory, isolation, run } = await makeHouse();
      skip(isolation.tier !== tier, `${tier} does not work here`);
      const { out } = await run(`
        cat ${directory}/config/plugins/file; echo
        echo x 2> /dev/null > ${directory}/config/plugins/file && echo changed
        cat ${directory}/other/file; echo
        echo new > ${directory}/other/made && cat ${directory}/other/made
        echo gone > /dev/null && echo end`);
      expect(out).toBe('of config/plugins\nof other\nnew\nend\n');
    });

    test('nor what another process has in its environment, and through its root', async ({
      skip,
    }) => {
      const { isolation, run } = await makeHouse();
      skip(isolation.tier !== tier, `${tier} does not work here`);
      const { out } = await run(`
        cat /proc/${process.pid}/environ > /dev/null 2>&1 && echo environment
        ls -L /proc/${process.pid}/root > /dev/null 2>&1 && echo root
        echo end`);
      expect(out).toBe('end\n');
    });
  });
});

test('a directory that plugins must read and that holds what is hidden leaves no way', async () => {
  const directory = await makeDirectory();
  mkdirSync(join(directory, 'state'));
  const found = findIsolation({
    nativePath: spawner.pathOf('native'),
    hidden: [join(directory, 'state')],
    readable: [directory],
    path,
  });
  expect(found).toMatchObject({ tier: 'none', wrapper: [] });
  expect(found.reason).toContain('must be readable by plugins');
});

test('without Landlock and bubblewrap there is none, and it says why', async () => {
  const directory = await makeDirectory();
  const found = findIsolation({
    nativePath: '/nowhere',
    hidden: [directory],
    readable: [],
    path: '',
  });
  expect(found.tier).toBe('none');
  expect(found.reason).toMatch(/Landlock|no way/);
});
