/** Ends, cancellation, deadlines and leftovers of processes in a box: as of any other process. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeHost } from '../../src/plugin/host.ts';
import type { Host, ProcessSpec } from '../../src/plugin/process.ts';
import {
  fixture,
  makeSpec,
  nodeScript,
  nothing,
  optionsOf,
  parentOf,
  useNativeSpawner,
  waitForDeath,
  waitUntil,
} from '../support/hosts.ts';
import {
  makeIsolationFixture,
  searchedPath,
  type IsolationFixture,
} from '../support/isolation-fixture.ts';

const spawnerBuilds = useNativeSpawner();
const kinds = ['native', 'node'] as const;
const fixtures = fixture('');

describe.runIf(process.platform === 'linux').each(kinds)('with the %s spawner', (kind) => {
  interface SandboxFixture {
    readonly host: Host;
    readonly spec: (name: string, more?: Partial<ProcessSpec>) => ProcessSpec;
    readonly sandbox: IsolationFixture;
  }

  /** Runs as the current user; test/plugin/isolation.test.ts has the other users. */
  async function open(skip: (is: boolean, why: string) => void): Promise<SandboxFixture> {
    const host = makeHost({
      ...optionsOf(kind, spawnerBuilds.pathOf(kind)),
      nodeScript,
      log: () => {},
    });
    onTestFinished(() => host.stop());
    await host.start();
    const native = spawnerBuilds.pathOf('native');
    const sandbox = await makeIsolationFixture('namespaces', { host, native, asNobody: false });
    skip(sandbox.isolation.tier === 'none', sandbox.isolation.reason ?? '');
    const spec: SandboxFixture['spec'] = (name, { env = {}, ...more } = {}) => {
      const whole = { cwd: fixtures, env: { PATH: searchedPath, ...env }, ...more };
      return sandbox.confine(makeSpec(name, whole));
    };
    return { host, spec, sandbox };
  }

  test('a process in a box ends as the plugin does', async ({ skip }) => {
    const { host, spec } = await open(skip);
    const exitOf = async (name: string, request: string) =>
      (await host.run(spec(name), Buffer.from(request))).exit;
    expect(await exitOf('exits-with-code', '7\n')).toEqual({ kind: 'exited', code: 7 });
    expect(await exitOf('exits-with-code', '0\n')).toEqual({ kind: 'exited', code: 0 });
    const killed = { kind: 'signalled', signal: 'SIGKILL' };
    expect(await exitOf('kills-itself', 'KILL\n')).toEqual(killed);
    expect(await exitOf('kills-itself', 'SEGV\n')).toEqual({ ...killed, signal: 'SIGSEGV' });
    const { stdout } = await host.run(spec('echoes-stdin'), Buffer.from('hello'));
    expect(stdout.toString()).toBe('hello');
  });

  test('SIGTERM reaches the plugin, and SIGKILL follows after its grace', async ({ skip }) => {
    const { host, spec } = await open(skip);
    const quick = { timeoutMs: 300, killGraceMs: 300 };
    const hanging = await host.run(spec('hangs', quick), nothing);
    expect(hanging).toMatchObject({ stopped: 'timeout', exit: { signal: 'SIGTERM' } });
    const env = { READY: '/tmp/ready' };
    const deaf = spec('ignores-sigterm', { env, timeoutMs: 3000, killGraceMs: 300 });
    const stubborn = await host.run(deaf, nothing);
    expect(stubborn).toMatchObject({ stopped: 'timeout', exit: { signal: 'SIGKILL' } });
    const slow = spec('answers-in-grace', { env, timeoutMs: 3000, killGraceMs: 5000 });
    const late = await host.run(slow, nothing);
    expect(late.stdout.toString()).toBe('late answer\n');
    expect(late).toMatchObject({ stopped: 'timeout', exit: { kind: 'exited', code: 0 } });
  });

  test('a cancelled plugin is gone with all that it started', async ({ skip }) => {
    const { host, sandbox } = await open(skip);
    const { script, seconds } = familyScript();
    const entrypoint = sandbox.write(script);
    const stop = new AbortController();
    const end = host.run(sandbox.confine(sandbox.specOf(entrypoint)), nothing, {
      signal: stop.signal,
    });
    await waitUntil('its family runs', () => findSleepers(seconds).length === 3);
    stop.abort('cancelled');
    expect(await end).toMatchObject({ stopped: 'cancelled' });
    await waitUntil('its family is gone', () => findSleepers(seconds).length === 0);
  });

  test('a daemon that left its session and closed its output dies with its plugin', async ({
    skip,
  }) => {
    const { host, sandbox } = await open(skip);
    const { script, seconds } = familyScript({ thenExits: true });
    const spec = sandbox.confine(sandbox.specOf(sandbox.write(script)));
    expect((await host.run(spec, nothing)).exit).toEqual({ kind: 'exited', code: 0 });
    await waitUntil('its daemons are gone', () => findSleepers(seconds).length === 0);
  });

  test('output that a child holds open is cut off, and the child dies', async ({ skip }) => {
    const { host, spec } = await open(skip);
    const began = performance.now();
    const end = await host.run(spec('child-holds-stdout', { drainMs: 300 }), nothing);
    expect(end.exit).toEqual({ kind: 'exited', code: 0 });
    expect(end.stdout.toString()).toMatch(/^\d+\n$/);
    expect(performance.now() - began).toBeGreaterThanOrEqual(250);
  });

  test('a process that is started ahead waits in its box for its request', async ({ skip }) => {
    const { host, spec } = await open(skip);
    const held = host.hold(spec('echoes-stdin'));
    expect((await held.feed(Buffer.from('asked'))).stdout.toString()).toBe('asked');
    const spoiled = host.hold(spec('prints-before-request'));
    await spoiled.spoiled;
  });

  test('a passed deadline kills everything in every box', async ({ skip }) => {
    const { host, sandbox } = await open(skip);
    const { script, seconds } = familyScript();
    const end = host.run(sandbox.confine(sandbox.specOf(sandbox.write(script))), nothing);
    await waitUntil('its family runs', () => findSleepers(seconds).length === 3);
    host.renew(1);
    expect(await end).toMatchObject({ stopped: 'fenced' });
    await waitUntil('its family is gone', () => findSleepers(seconds).length === 0);
  });

  test('nothing in a box outlives a spawner that was killed', async ({ skip }) => {
    const { host, sandbox } = await open(skip);
    const { script, seconds } = familyScript();
    const started = Promise.withResolvers<number>();
    const spec = sandbox.confine(sandbox.specOf(sandbox.write(script)));
    const end = host.run(spec, nothing, { onStarted: started.resolve });
    const keeper = await started.promise;
    await waitUntil('its family runs', () => findSleepers(seconds).length === 3);
    process.kill(parentOf(keeper), 'SIGKILL');
    await expect(end).rejects.toMatchObject({ code: 'SPAWNER_FAILED' });
    await waitForDeath(keeper);
    await waitUntil('its family is gone', () => findSleepers(seconds).length === 0);
  });

  test('limits count the processes of the plugin, and not those of its box', async ({ skip }) => {
    const { host, spec, sandbox } = await open(skip);
    const alone = await host.run(spec('echoes-stdin', { limits: { processes: 1 } }), nothing);
    expect(alone).toMatchObject({ stopped: undefined, exit: { code: 0 } });
    const { script } = familyScript();
    const entrypoint = sandbox.write(script);
    const limitedSpec = { ...sandbox.specOf(entrypoint), limits: { processes: 3 } };
    expect(await host.run(sandbox.confine(limitedSpec), nothing)).toMatchObject({
      stopped: 'processes',
    });
  });

  test('many boxes at once leave no process behind', async ({ skip }) => {
    const { host, spec } = await open(skip);
    const requests = Array.from({ length: 40 }, (_, index) => `request ${index}`);
    const one = spec('echoes-stdin');
    const ends = await Promise.all(requests.map((text) => host.run(one, Buffer.from(text))));
    expect(ends.map(({ stdout }) => stdout.toString())).toEqual(requests);
    const spawner = parentOf((await startHanging(host, spec('hangs'))).pid);
    await waitUntil('only that one is left', () => findChildren(spawner).length === 1);
  });
});

/** A process that hangs until its host stops. */
async function startHanging(host: Host, spec: ProcessSpec): Promise<{ pid: number }> {
  const started = Promise.withResolvers<number>();
  host.run(spec, nothing, { onStarted: started.resolve }).catch(() => {});
  return { pid: await started.promise };
}

function findChildren(parent: number): string[] {
  return readdirSync('/proc').filter(
    (pid) => /^\d+$/.test(pid) && parentOf(Number(pid)) === parent,
  );
}

let families = 0;

/** Three processes: a child, one in a session of its own, and a daemon with closed output. */
function familyScript({ thenExits = false } = {}): { script: string; seconds: string } {
  const seconds = `6${process.pid}.${(families += 1)}`;
  const script = `
    sleep ${seconds} > /dev/null 2>&1 &
    setsid sleep ${seconds} > /dev/null 2>&1 &
    (setsid sh -c 'exec 0<&- 1>&- 2>&-; sleep ${seconds}' &)
    ${thenExits ? 'exit 0' : 'wait; sleep 600'}`;
  return { script, seconds };
}

/** The host sees the processes of a box under numbers of its own. */
function findSleepers(seconds: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return readFileSync(join('/proc', pid, 'cmdline'), 'utf8') === `sleep\0${seconds}\0`;
    } catch {
      return false;
    }
  });
}
