/**
 * The rights of a confined process in each isolation tier, as the service's user and as another.
 */
import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeHost } from '../../src/plugin/host.ts';
import type { Host } from '../../src/plugin/process.ts';
import { nodeScript, optionsOf, useNativeSpawner } from '../support/hosts.ts';
import {
  makeIsolationFixture,
  ownUid,
  type IsolationFixture,
} from '../support/isolation-fixture.ts';

const spawner = useNativeSpawner();

const users =
  ownUid === 0 ? (['the service user', 'nobody'] as const) : (['the service user'] as const);
const tiers = ['namespaces', 'bubblewrap', 'landlock'] as const;

describe.runIf(process.platform === 'linux').each(tiers)('in the tier %s', (tier) => {
  describe.each(users)('as %s', (user) => {
    let host: Host;
    beforeAll(async () => {
      const options = optionsOf('native', spawner.pathOf('native'));
      host = makeHost({ ...options, nodeScript, log: () => {} });
      await host.start();
    });
    afterAll(() => host.stop());
    const open = async (skip: (is: boolean, why: string) => void): Promise<IsolationFixture> => {
      const sandbox = await makeIsolationFixture(tier, {
        host,
        native: spawner.pathOf('native'),
        asNobody: user === 'nobody',
      });
      skip(sandbox.isolation.tier !== tier, sandbox.isolation.reason ?? '');
      return sandbox;
    };

    test('a hostile plugin changes, reads, reaches and signals nothing', async ({ skip }) => {
      const sandbox = await open(skip);
      const { reached, before, after } = await sandbox.attack();
      expect(reached).toEqual([]);
      expect(after).toEqual(before);
    });

    test('a plugin reads its directory, and writes only where it may', async ({ skip }) => {
      const { directory, run } = await open(skip);
      const other = join(directory, 'other');
      const script = `
        cat ${directory}/config/plugins/file; echo
        cat ${other}/file 2> /dev/null && echo read without leave
        echo x 2> /dev/null > ${other}/made && echo wrote without leave
        echo gone > /dev/null && echo end`;
      expect(await run(script)).toBe('of config/plugins\nend\n');
      expect(
        await run(`cat ${other}/file; echo; touch ${other}/x 2>&1 | tail -c 1 | wc -c`, {
          read: [other],
        }),
      ).toBe('of other\n1\n');
      if (ownUid === 0 && user !== 'nobody') chmodSync(other, 0o777);
      expect(await run(`echo new > ${other}/made && cat ${other}/made`, { write: [other] })).toBe(
        'new\n',
      );
      expect(readFileSync(join(other, 'made'), 'utf8')).toBe('new\n');
    });

    test('a writable directory that holds plugins or the state is refused', async ({ skip }) => {
      const { directory, run } = await open(skip);
      for (const write of [directory, join(directory, 'state'), join(directory, 'packages', 'x')]) {
        await expect(run('true', { write: [write] })).rejects.toMatchObject({
          code: 'PLUGIN_NOT_ISOLATED',
        });
      }
    });

    test.runIf(tier !== 'landlock')('each process has a /tmp of its own', async ({ skip }) => {
      const sandbox = await open(skip);
      expect(await sandbox.run('echo mine > /tmp/left && cat /tmp/left; echo $HOME $TMPDIR')).toBe(
        'mine\n/tmp /tmp\n',
      );
      expect(await sandbox.run('ls /tmp /var/tmp | grep -v : | grep -c left')).toBe('0\n');
      expect(existsSync('/tmp/left')).toBe(false);
    });

    test('a process without a network reaches not even the loopback', async ({ skip }) => {
      const sandbox = await open(skip);
      expect((await sandbox.attack({ network: 'none' })).reached).toEqual([]);
    });
  });
});
