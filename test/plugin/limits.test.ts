/** Limits of memory, processes, CPU time and files: over all spawners, with real processes. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Host, ProcessEnd, ProcessLimits } from '../../src/plugin/process.ts';
import { makeDirectory } from '../support/directory.ts';
import {
  builds,
  makeSpec,
  nothing,
  optionsOf,
  startHost,
  useNativeSpawner,
  waitForDeath,
} from '../support/hosts.ts';

const MIB = 1024 * 1024;
const spawner = useNativeSpawner();

describe.each(builds)('%s', (build) => {
  let host: Host;
  beforeEach(async () => {
    host = await startHost(optionsOf(build, spawner.pathOf(build)));
  });

  function run(
    name: string,
    limits: ProcessLimits,
    env: Record<string, string> = {},
  ): Promise<ProcessEnd> {
    const path = { PATH: '/usr/bin:/bin' };
    return host.run(makeSpec(name, { limits, env: { ...path, ...env } }), nothing);
  }

  // Other systems don't show the memory and the children of processes.
  const canWatch = build !== 'portable';

  describe.runIf(canWatch)('memory', () => {
    test.each(['leader', 'grandchild'])(
      'is limited for a %s, and the whole group is killed',
      async (where) => {
        const limits = { memoryBytes: 64 * MIB };
        const env = { LIMIT_TEST_MIB: '400', LIMIT_TEST_WHERE: where };
        const end = await run('takes-memory', limits, env);
        expect(end).toMatchObject({ stopped: 'memory', exit: { signal: 'SIGKILL' } });
        expect(end.memoryPeakBytes).toBeGreaterThan(64 * MIB);
        await waitForDeath(end.pid ?? 0);
      },
    );

    test.runIf(build === 'native')(
      'is limited for a descendant that left its family and cleared its environment',
      async () => {
        const env = { LIMIT_TEST_MIB: '400', LIMIT_TEST_WHERE: 'orphan' };
        const end = await run('takes-memory', { memoryBytes: 64 * MIB }, env);
        expect(end.stopped).toBe('memory');
      },
    );

    test('that processes share after a fork is counted once', async () => {
      const env = { LIMIT_TEST_MIB: '60', LIMIT_TEST_WHERE: 'shared' };
      const end = await run('takes-memory', { memoryBytes: 200 * MIB }, env);
      expect(end).toMatchObject({ stopped: undefined, exit: { kind: 'exited', code: 0 } });
      expect(end.memoryPeakBytes).toBeGreaterThan(60 * MIB);
      expect(end.memoryPeakBytes).toBeLessThan(200 * MIB);
    });

    test('that is only reserved is not counted', async () => {
      const env = { NODE_OPTIONS: '', PATH: process.env['PATH'] ?? '' };
      const script = join(await makeDirectory(), 'reserves');
      const { writeFile } = await import('node:fs/promises');
      const text = `#!${process.execPath}\nnew WebAssembly.Memory({ initial: 1, maximum: 65536 });
        setTimeout(() => console.log('done'), 300);\n`;
      await writeFile(script, text, { mode: 0o755 });
      const spec = makeSpec(script, { env, limits: { memoryBytes: 256 * MIB } });
      expect((await host.run(spec, nothing)).stdout.toString()).toBe('done\n');
    });
  });

  describe.runIf(canWatch)('processes', () => {
    test('are limited in number', async () => {
      const end = await run('takes-processes', { processes: 10 }, { LIMIT_TEST_COUNT: '40' });
      expect(end).toMatchObject({ stopped: 'processes', exit: { signal: 'SIGKILL' } });
    });

    test('may be as many as the limit says', async () => {
      const limits = { processes: 41, cpuMs: 60_000 };
      const spec = makeSpec('takes-processes', {
        limits,
        env: { PATH: '/usr/bin:/bin', LIMIT_TEST_COUNT: '40' },
        timeoutMs: 700,
        killGraceMs: 0,
      });
      expect((await host.run(spec, nothing)).stopped).toBe('timeout');
    });
  });

  describe('CPU time', () => {
    test('is limited for a process', async () => {
      const end = await run('takes-time', { cpuMs: 400 });
      expect(end.stopped).toBe('cpu');
      expect(end.exit.kind).toBe('signalled');
      if (build === 'node') expect(end.cpuMs).toBeUndefined();
      else expect(end.cpuMs).toBeGreaterThanOrEqual(400);
    });

    test.runIf(canWatch)('is limited for all processes together', async () => {
      const end = await run('takes-time', { cpuMs: 600 }, { LIMIT_TEST_WHERE: 'children' });
      expect(end.stopped).toBe('cpu');
    });
  });

  test('a file that grows beyond the limit ends the process that writes it', async () => {
    const file = join(await makeDirectory(), 'file');
    const env = { LIMIT_TEST_KIB: '2048', LIMIT_TEST_FILE: file };
    const end = await run('takes-disk', { fileBytes: MIB }, env);
    expect(end).toMatchObject({ stopped: 'file_size', exit: { signal: 'SIGXFSZ' } });
    expect(statSync(file).size).toBe(MIB);
    expect(await run('takes-disk', { fileBytes: 4 * MIB }, env)).toMatchObject({
      stopped: undefined,
      exit: { code: 0 },
    });
  });

  test('limits of one process are not those of the next', async () => {
    const file = join(await makeDirectory(), 'file');
    const env = { LIMIT_TEST_KIB: '2048', LIMIT_TEST_FILE: file };
    await run('takes-disk', { fileBytes: MIB, cpuMs: 1000 }, env);
    expect(await run('takes-disk', {}, env)).toMatchObject({ exit: { code: 0 } });
  });

  test('usage is reported when nothing is limited, or not at all', async () => {
    const env = { LIMIT_TEST_MIB: '50', LIMIT_TEST_KEEP: '0' };
    const end = await run('takes-memory', {}, env);
    if (build === 'node') {
      expect([end.cpuMs, end.memoryPeakBytes]).toEqual([undefined, undefined]);
      return;
    }
    expect(end.cpuMs).toBeGreaterThan(0);
    expect(end.memoryPeakBytes).toBeGreaterThan(50 * MIB);
    expect(end.memoryPeakBytes).toBeLessThan(120 * MIB);
  });

  test('a process that could not be started has no usage', async () => {
    const end = await run('missing-interpreter', {});
    expect([end.cpuMs, end.memoryPeakBytes]).toEqual([undefined, undefined]);
  });
});
