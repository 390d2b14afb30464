/** The behavior of plugin processes, and how the host handles it, over each spawner. */
import { existsSync, realpathSync, writeFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeHost } from '../../src/plugin/host.ts';
import type { Host, ProcessEnd, ProcessSpec, RunOptions } from '../../src/plugin/process.ts';
import { makeDirectory } from '../support/directory.ts';
import {
  builds,
  isAlive,
  makeSpec,
  nodeScript,
  nothing,
  optionsOf,
  readState,
  startHost,
  useNativeSpawner,
  waitForDeath,
  waitUntil,
} from '../support/hosts.ts';

const MIB = 1024 * 1024;
const spawner = useNativeSpawner();
/** The signals of a process that neither blocks nor ignores any. */
const noSignals = /^SigBlk:\t0+\nSigIgn:\t0+\n$/;

describe.each(builds)('the host over the %s spawner', (build) => {
  let host: Host;

  beforeAll(async () => {
    host = makeHost({ ...optionsOf(build, spawner.pathOf(build)), nodeScript, log: () => {} });
    await host.start();
  });
  afterAll(() => host.stop());

  function run(
    name: string,
    request: Buffer | string = nothing,
    more: Partial<ProcessSpec> = {},
    options: RunOptions = {},
  ): Promise<ProcessEnd> {
    return host.run(makeSpec(name, more), Buffer.from(request), options);
  }

  /** Starts it, waits until it says that it is ready, and aborts it. */
  async function cancelWhenReady(name: string, reason: string, more: Partial<ProcessSpec> = {}) {
    const ready = join(await makeDirectory(), 'ready');
    const controller = new AbortController();
    const env = { PATH: '/usr/bin:/bin', READY: ready };
    const end = run(name, nothing, { env, ...more }, { signal: controller.signal });
    await waitUntil('it is ready', () => existsSync(ready));
    controller.abort(reason);
    return end;
  }

  describe('gives and takes', () => {
    test('the request and the response, unchanged', async () => {
      const request = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
      const end = await run('echoes-stdin', request);
      expect(end).toMatchObject({ exit: { kind: 'exited', code: 0 }, stopped: undefined });
      expect(end.stdout.equals(request)).toBe(true);
      expect(end.stderr).toHaveLength(0);
      expect(end.stdoutOverflowed || end.stderrTruncated).toBe(false);
      expect(end.pid).toBeGreaterThan(1);
      expect(end.spawnMs).toBeGreaterThan(0);
      expect(end.runMs).toBeGreaterThan(0);
    });

    test('a request and an answer larger than any pipe', async () => {
      const request = Buffer.alloc(8 * MIB, 'payload ');
      const end = await run('echoes-stdin', request);
      expect(end.stdout.equals(request)).toBe(true);
    });

    test('reports the pid while the process runs', async () => {
      const started = Promise.withResolvers<number>();
      const controller = new AbortController();
      const options = { signal: controller.signal, onStarted: started.resolve };
      const end = run('hangs', nothing, {}, options);
      const pid = await started.promise;
      expect(isAlive(pid)).toBe(true);
      controller.abort();
      expect((await end).pid).toBe(pid);
    });

    test('an environment with only the variables of the spec', async () => {
      const cwd = realpathSync(await makeDirectory());
      const { stdout } = await run('tells-its-setting', nothing, { cwd });
      expect(JSON.parse(stdout.toString())).toMatchObject({
        descriptors: [0, 1, 2],
        arguments: [],
        cwd,
        leadsSession: true,
        leadsGroup: true,
        coreBytesMax: build === 'node' ? 0 : 1,
        niceness: getPriority(),
        scheduling: 0,
      });
    });

    test.runIf(process.platform === 'linux')('no blocked and no ignored signal', async () => {
      const { stdout } = await run('tells-its-signals');
      expect(stdout.toString()).toMatch(noSignals);
    });

    test.runIf(process.platform === 'linux' && build !== 'node')(
      'not even a signal that the parent of the spawner ignores',
      async () => {
        const nativePath = join(await makeDirectory(), 'spawner');
        const script = `#!/bin/sh\ntrap '' HUP USR1 RTMIN\nexec ${spawner.pathOf(build)} "$@"\n`;
        writeFileSync(nativePath, script, { mode: 0o755 });
        const ignoring = await startHost({ kind: 'native', nativePath });
        const { stdout } = await ignoring.run(makeSpec('tells-its-signals'), nothing);
        expect(stdout.toString()).toMatch(noSignals);
      },
    );

    test('exactly the environment of the spec, and its marker', async () => {
      const env = { PATH: '/usr/bin', 'odd name': 'a=b\nc', EMPTY: '', UNICODE: 'naïve ✓' };
      const { stdout } = await run('/usr/bin/env', nothing, { env });
      const lines = stdout.toString();
      expect(lines).toMatch(/^DUCTILE_ATTEMPT=\S+$/m);
      const rest = lines.replace(/^DUCTILE_ATTEMPT=\S+\n/m, '');
      expect(rest).toBe('PATH=/usr/bin\nodd name=a=b\nc\nEMPTY=\nUNICODE=naïve ✓\n');
    });

    test('a marker that differs from process to process and cannot be set from outside', async () => {
      const env = { DUCTILE_ATTEMPT: 'mine' };
      const ends = await Promise.all([1, 2].map(() => run('/usr/bin/env', nothing, { env })));
      const [first, second] = ends.map(({ stdout }) => stdout.toString());
      expect(first).not.toBe(second);
      expect(first).not.toContain('mine');
    });
  });

  describe('takes what a plugin does with its streams', () => {
    test('it never reads 10 MB of stdin, and its neighbours do not notice', async () => {
      const silent = run('hangs', Buffer.alloc(10 * MIB), { timeoutMs: 1000 });
      const neighbour = await run('echoes-stdin', 'neighbour');
      expect(neighbour.stdout.toString()).toBe('neighbour');
      expect(await silent).toMatchObject({ stopped: 'timeout' });
    });

    test.each([
      ['closes-stdin-at-once', 'did not read\n'],
      ['exits-before-reading', ''],
    ])('%s with 10 MB on their way', async (name, stdout) => {
      const end = await run(name, Buffer.alloc(10 * MIB));
      expect(end).toMatchObject({ exit: { kind: 'exited', code: 0 }, stopped: undefined });
      expect(end.stdout.toString()).toBe(stdout);
    });

    test('it closes stdout and continues', async () => {
      const end = await run('closes-stdout-and-goes-on', 'x');
      expect(end.exit).toEqual({ kind: 'exited', code: 0 });
      expect(end.stdout).toHaveLength(0);
      expect(end.stderr.toString()).toBe('went on\n');
    });

    test.each([
      ['prints-nothing', ''],
      ['one-byte-at-a-time', '{"a":1}'],
      ['banner-then-answer', 'Welcome to the plugin, version 7\nrequest'],
      ['splits-a-character', 'naïve'],
    ])('%s', async (name, stdout) => {
      const end = await run(name, 'request');
      expect(end.exit).toEqual({ kind: 'exited', code: 0 });
      expect(end.stdout.toString('utf8')).toBe(stdout);
    });

    test('100 MB to stdout: it is stopped and the prefix kept', async () => {
      const end = await run('floods-stdout', nothing, { stdoutBytesMax: 1000 });
      expect(end).toMatchObject({ stopped: 'output', stdoutOverflowed: true });
      expect(end.stdout.equals(Buffer.alloc(1000))).toBe(true);
      expect(isAlive(end.pid ?? 0)).toBe(false);
    });

    test('a plugin that wrote too much was stopped and did not die of its closed pipe', async () => {
      const ends = await Promise.all(
        Array.from({ length: 40 }, () => run('floods-stdout', nothing, { stdoutBytesMax: 1000 })),
      );
      expect(new Set(ends.map(({ stopped }) => stopped))).toEqual(new Set(['output']));
    });

    test('exactly as much as is allowed is not too much', async () => {
      const end = await run('echoes-stdin', Buffer.alloc(1000, 'x'), { stdoutBytesMax: 1000 });
      expect(end).toMatchObject({ stopped: undefined, stdoutOverflowed: false });
      expect(end.stdout).toHaveLength(1000);
    });

    test('100 MB to stderr: the first bytes are kept and it may continue', async () => {
      const end = await run('floods-stderr', nothing, { stderrBytesMax: 1000 });
      expect(end).toMatchObject({
        exit: { kind: 'exited', code: 0 },
        stopped: undefined,
        stderrTruncated: true,
      });
      expect(end.stderr).toHaveLength(1000);
      expect(end.stdout.toString()).toBe('done\n');
    });

    test('10 MiB outputs to an engine that does not read them block no process', async () => {
      const ready = join(await makeDirectory(), 'ready');
      const env = { PATH: '/usr/bin:/bin', READY: ready };
      const large = Array.from({ length: 4 }, () => run('prints-ten-mebibytes'));
      const timed = run('touches-file-on-sigterm', nothing, { env, timeoutMs: 1500 });
      await new Promise(setImmediate);
      // Nothing of ours runs from here on: only a spawner that is not stuck sends the SIGTERM.
      const blocked = new Int32Array(new SharedArrayBuffer(4));
      const deadline = performance.now() + 10_000;
      while (!existsSync(ready) && performance.now() < deadline) Atomics.wait(blocked, 0, 0, 5);
      expect(existsSync(ready)).toBe(true);
      for (const end of await Promise.all(large)) expect(end.stdout).toHaveLength(10 * MIB);
      expect((await timed).stopped).toBe('timeout');
    });
  });

  describe('reports how it ended', () => {
    test.each([0, 1, 2, 75, 78, 126, 127, 255])('exit code %i', async (code) => {
      const end = await run('exits-with-code', `${code}\n`);
      expect(end).toMatchObject({ exit: { kind: 'exited', code }, stopped: undefined });
    });

    test.each(['SEGV', 'ABRT', 'KILL', 'BUS'])('SIG%s', async (signal) => {
      const end = await run('kills-itself', `${signal}\n`);
      const exit = { kind: 'signalled', signal: `SIG${signal}` };
      expect(end).toMatchObject({ exit, stopped: undefined });
    });

    test.each([
      ['missing-interpreter', 'ENOENT'],
      ['not-executable', 'EACCES'],
      ['no-such-file', 'ENOENT'],
      ['/', 'EACCES'],
    ])('%s cannot be started', async (name, code) => {
      const end = await run(name);
      expect(end).toMatchObject({
        exit: { kind: 'unstarted', code, hostFull: false },
        pid: undefined,
        stopped: undefined,
      });
    });

    test('a missing working directory', async () => {
      const end = await run('echoes-stdin', nothing, { cwd: '/no/such/directory' });
      expect(end.exit).toEqual({ kind: 'unstarted', code: 'ENOENT', hostFull: false });
    });

    test('an environment that is too large', async () => {
      const end = await run('echoes-stdin', nothing, { env: { LARGE: 'x'.repeat(3 * MIB) } });
      expect(end.exit).toEqual({ kind: 'unstarted', code: 'E2BIG', hostFull: false });
    });

    test('a spec that no system call would take', async () => {
      const end = await run('echoes-stdin', nothing, { env: { NUL: 'a\0b' } });
      expect(end.exit).toEqual({ kind: 'unstarted', code: 'EINVAL', hostFull: false });
    });
  });

  describe('stops it', () => {
    test('when it hangs', async () => {
      const end = await run('hangs', nothing, { timeoutMs: 50 });
      expect(end).toMatchObject({
        exit: { kind: 'signalled', signal: 'SIGTERM' },
        stopped: 'timeout',
      });
      expect(end.runMs).toBeGreaterThanOrEqual(49);
    });

    test('when it trickles for ever, and keeps what came', async () => {
      const end = await run('trickles-for-ever', nothing, { timeoutMs: 400 });
      expect(end.stopped).toBe('timeout');
      expect(end.stdout.toString()).toMatch(/^x+$/);
    });

    test('with SIGKILL after the grace when it ignores SIGTERM', async () => {
      const end = await cancelWhenReady('ignores-sigterm', 'cancel', { killGraceMs: 100 });
      expect(end).toMatchObject({
        exit: { kind: 'signalled', signal: 'SIGKILL' },
        stopped: 'cancelled',
      });
    });

    test('and accepts a response in the grace time', async () => {
      const end = await cancelWhenReady('answers-in-grace', 'shutdown');
      expect(end).toMatchObject({ exit: { kind: 'exited', code: 0 }, stopped: 'shutdown' });
      expect(end.stdout.toString()).toBe('late answer\n');
    });

    test('without a grace when there is none', async () => {
      const end = await run('hangs', nothing, { timeoutMs: 50, killGraceMs: 0 });
      const exit = { kind: 'signalled', signal: 'SIGKILL' };
      expect(end).toMatchObject({ exit, stopped: 'timeout' });
    });

    test('when it has stopped itself', async () => {
      const controller = new AbortController();
      const started = Promise.withResolvers<number>();
      const options = { signal: controller.signal, onStarted: started.resolve };
      const end = run('stops-itself', nothing, {}, options);
      const pid = await started.promise;
      await waitUntil('it is stopped', () => readState(pid) === 'T');
      controller.abort();
      expect(await end).toMatchObject({
        exit: { kind: 'signalled', signal: 'SIGTERM' },
        stopped: 'cancelled',
      });
    });

    test('before it began, when it was aborted before', async () => {
      const signal = AbortSignal.abort('shutdown');
      const end = await run('hangs', nothing, {}, { signal });
      expect(end).toMatchObject({ exit: { kind: 'unstarted' }, pid: undefined });
      expect(end.stopped).toBe('shutdown');
    });
  });

  describe('leaves no process behind', () => {
    test('a child that holds stdout is cut off and killed', async () => {
      const end = await run('child-holds-stdout', nothing, { drainMs: 50 });
      expect(end).toMatchObject({ exit: { kind: 'exited', code: 0 }, stopped: undefined });
      await waitForDeath(Number(end.stdout.toString()));
    });

    test('output of the process itself survives a drain of no time at all', async () => {
      const end = await run('child-holds-stdout', nothing, { drainMs: 0 });
      expect(end.stdout.toString()).toMatch(/^\d+\n$/);
      await waitForDeath(Number(end.stdout.toString()));
    });

    test('children in its group', async () => {
      const { stdout } = await run('forks-many');
      const pids = stdout.toString().trim().split(' ').map(Number);
      expect(pids).toHaveLength(10);
      for (const pid of pids) await waitForDeath(pid);
    });

    const daemons = ['daemon-new-session', 'daemon-double-fork', 'daemon-clears-environment'];
    const reached = { native: daemons, portable: [], node: daemons.slice(0, 2) }[build];

    test.for(process.platform === 'linux' ? reached : [])('%s', async (name) => {
      const { stdout } = await run(name);
      await waitForDeath(Number(stdout.toString()));
    });
  });
});
