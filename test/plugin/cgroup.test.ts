/**
 * Control groups of version 2, and the kernel's end for lack of memory. They need root and a
 * hierarchy to make groups in; other machines skip them.
 */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Host, ProcessEnd } from '../../src/plugin/process.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeSpec, nothing, startHost, useNativeSpawner, waitUntil } from '../support/hosts.ts';

const MIB = 1024 * 1024;
const spawner = useNativeSpawner();

function canMakeGroups(root: string): boolean {
  try {
    accessSync(root, constants.W_OK);
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
}

const unified = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'].find((path) =>
  existsSync(join(path, 'cgroup.controllers')),
);
const memory = '/sys/fs/cgroup/memory';

/** A spawner that is in a group of its own from its start. */
async function startIn(
  group: string,
  cgroup?: 'delegated',
  left: readonly string[] = [],
): Promise<Host> {
  mkdirSync(group);
  for (const name of left) mkdirSync(join(group, name));
  const removeAll = (): void => {
    const below = readdirSync(group, { withFileTypes: true }).filter((one) => one.isDirectory());
    for (const { name } of below) rmdirSync(join(group, name));
    rmdirSync(group);
  };
  onTestFinished(() =>
    waitUntil('the group is empty', () => {
      try {
        removeAll();
        return true;
      } catch {
        return false;
      }
    }),
  );
  const nativePath = join(await makeDirectory(), 'spawner');
  const enter = `echo $$ >${join(group, 'cgroup.procs')}`;
  const script = `#!/bin/sh\n${enter}\nexec ${spawner.pathOf('native')} "$@"\n`;
  await writeFile(nativePath, script, { mode: 0o755 });
  return startHost({ kind: 'native', nativePath, cgroup });
}

function groupsIn(group: string): string[] {
  return readdirSync(group, { withFileTypes: true })
    .filter((one) => one.isDirectory())
    .map(({ name }) => name)
    .toSorted();
}

function hog(host: Host, where: string, limit: number | undefined): Promise<ProcessEnd> {
  const env = { PATH: '/usr/bin:/bin', LIMIT_TEST_MIB: '400', LIMIT_TEST_WHERE: where };
  const limits = limit === undefined ? {} : { memoryBytes: limit };
  return host.run(makeSpec('takes-memory', { env, limits }), nothing);
}

describe.runIf(unified !== undefined && canMakeGroups(unified))('a delegated control group', () => {
  const group = (): string => join(unified ?? '', `ductile-test-${process.pid}-${Date.now()}`);

  test('has a group for each attempt with limits, which is removed with it', async () => {
    const root = group();
    const host = await startIn(root, 'delegated');
    expect(groupsIn(root)).toEqual(['service']);
    const started = Promise.withResolvers<number>();
    const controller = new AbortController();
    const options = { onStarted: started.resolve, signal: controller.signal };
    const end = host.run(makeSpec('hangs', { limits: { processes: 50 } }), nothing, options);
    const pid = await started.promise;
    const [name = ''] = groupsIn(root);
    expect(name).toMatch(/^attempt-\d+$/);
    const inside = readFileSync(join(root, name, 'cgroup.procs'), 'utf8').split('\n');
    expect(inside).toContain(String(pid));
    const spawners = readFileSync(join(root, 'service', 'cgroup.procs'), 'utf8').trim();
    expect(spawners.split('\n')).toHaveLength(1);
    controller.abort();
    expect((await end).stopped).toBe('cancelled');
    await waitUntil('it is removed', () => groupsIn(root).length === 1);
  });

  test('counts a descendant that hides, whatever else runs', async () => {
    const root = group();
    const host = await startIn(root, 'delegated');
    const controller = new AbortController();
    const limits = { memoryBytes: 64 * MIB };
    const others = [1, 2].map(() =>
      host.run(makeSpec('hangs', { limits }), nothing, { signal: controller.signal }),
    );
    const end = await hog(host, 'orphan', 64 * MIB);
    expect(end.stopped).toBe('memory');
    controller.abort();
    for (const other of others) expect((await other).stopped).toBe('cancelled');
    await waitUntil('all are removed', () => groupsIn(root).length === 1);
  });

  test('measures the CPU time of processes that were not waited for', async () => {
    const host = await startIn(group(), 'delegated');
    const script = join(await makeDirectory(), 'forks');
    const text =
      '#!/bin/sh\nsh -c "i=0; while [ \\$i -lt 300000 ]; do i=\\$((i+1)); done" &\nsleep 2\n';
    await writeFile(script, text, { mode: 0o755 });
    const spec = { limits: { cpuMs: 60_000 }, env: { PATH: '/usr/bin:/bin' } };
    const end = await host.run(makeSpec(script, spec), nothing);
    expect(end.cpuMs).toBeGreaterThan(50);
  });

  test('is not used unless it is configured', async () => {
    const root = group();
    const host = await startIn(root);
    expect(await hog(host, 'leader', 64 * MIB)).toMatchObject({ stopped: 'memory' });
    expect(groupsIn(root)).toEqual([]);
  });

  test('that is left by a spawner that was killed is emptied by the next', async () => {
    const root = group();
    await startIn(root, 'delegated', ['attempt-7', 'service']);
    await waitUntil('it is removed', () => groupsIn(root).join() === 'service');
  });
});

describe.runIf(existsSync(join(memory, 'memory.limit_in_bytes')) && canMakeGroups(memory))(
  'the kernel ends a plugin for lack of memory',
  () => {
    test('the cause differs from another SIGKILL', async () => {
      const root = join(memory, `ductile-test-${process.pid}-${Date.now()}`);
      const host = await startIn(root);
      writeFileSync(join(root, 'memory.limit_in_bytes'), String(96 * MIB));
      expect(await hog(host, 'leader', undefined)).toMatchObject({
        stopped: 'memory',
        exit: { kind: 'signalled', signal: 'SIGKILL' },
      });
      const killed = await host.run(makeSpec('kills-itself'), Buffer.from('KILL\n'));
      expect(killed).toMatchObject({
        stopped: undefined,
        exit: { kind: 'signalled', signal: 'SIGKILL' },
      });
    });
  },
);
