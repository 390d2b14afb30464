/** The lifetimes of the spawner, of its engine and of the plugin processes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeHost, type HostOptions } from '../../src/plugin/host.ts';
import type { Host, RunOptions } from '../../src/plugin/process.ts';
import { makeDirectory } from '../support/directory.ts';
import {
  builds,
  isAlive,
  makeSpec,
  nodeScript,
  nothing,
  optionsOf,
  parentOf,
  readState,
  startHost,
  useNativeSpawner,
  waitForDeath,
  waitUntil,
  type Build,
} from '../support/hosts.ts';

const spawnerBuilds = useNativeSpawner();
const engineLike = resolve(import.meta.dirname, '../support/engine-like.ts');

describe.each(builds)('with the %s spawner', (build) => {
  const start = (more: Partial<HostOptions> = {}): Promise<Host> =>
    startHost({ ...optionsOf(build, spawnerBuilds.pathOf(build)), ...more });

  /** A process that hangs, its pid and its end, which may be that the spawner died. */
  async function startHanging(host: Host, name = 'hangs', options: RunOptions = {}) {
    const started = Promise.withResolvers<number>();
    const end = host.run(makeSpec(name, { timeoutMs: 120_000 }), nothing, {
      ...options,
      onStarted: started.resolve,
    });
    end.catch(() => {});
    return { pid: await started.promise, end };
  }

  async function startEngine(lockPath?: string, memoryMib = 0) {
    const pidFile = join(await makeDirectory(), 'pids');
    const env = { PATH: '/usr/bin:/bin', PID_FILE: pidFile, MEMORY_MIB: String(memoryMib) };
    const spec = makeSpec('hangs-with-family', { env, timeoutMs: 60_000 });
    const options = { ...optionsOf(build, spawnerBuilds.pathOf(build)), nodeScript, lockPath };
    const args = [engineLike, JSON.stringify(options), JSON.stringify(spec)];
    const engine = spawn(process.execPath, args, { stdio: 'inherit' });
    const gone = once(engine, 'exit');
    onTestFinished(() => void engine.kill('SIGKILL'));
    await waitUntil('its plugin runs', () => existsSync(pidFile));
    const pids = readFileSync(pidFile, 'utf8').trim().split(' ').map(Number);
    expect(pids.map(isAlive)).toEqual([true, true, true]);
    return { engine, gone, pids, spawner: parentOf(pids[0] ?? 0) };
  }

  test('200 processes at once, each with its own answer', async () => {
    const host = await start();
    const requests = Array.from({ length: 200 }, (_, index) => `request ${index}`);
    const ends = await Promise.all(
      requests.map((request) => host.run(makeSpec('echoes-stdin'), Buffer.from(request))),
    );
    expect(ends.map(({ stdout }) => stdout.toString())).toEqual(requests);
  });

  test('500 processes leave no zombie and no descriptor', async () => {
    const host = await start();
    const spec = makeSpec('/bin/true');
    const batch = () => Promise.all(Array.from({ length: 20 }, () => host.run(spec, nothing)));
    await batch();
    const { pid, end } = await startHanging(host);
    const spawner = parentOf(pid);
    const count = () => readdirSync(`/proc/${spawner}/fd`).length;
    const before = count();
    for (let round = 0; round < 25; round += 1) await batch();
    await waitUntil('no descriptor is left over', () => count() <= before);
    expect(findZombiesOf(spawner)).toEqual([]);
    await host.stop();
    expect(await end).toMatchObject({ stopped: 'shutdown' });
  });

  test('the engine is killed: so is everything below it', async () => {
    const { engine, gone, pids, spawner } = await startEngine();
    engine.kill('SIGKILL');
    await gone;
    for (const pid of build === 'portable' ? pids.slice(0, 2) : pids) await waitForDeath(pid);
    await waitForDeath(spawner);
    killAll(pids);
  });

  test('engine and spawner are both killed: the next spawner kills what they left', async () => {
    const lockPath = join(await makeDirectory(), 'spawner.lock');
    const { engine, gone, pids, spawner } = await startEngine(lockPath);
    process.kill(spawner, 'SIGSTOP');
    engine.kill('SIGKILL');
    await gone;
    process.kill(spawner, 'SIGKILL');
    await waitForDeath(spawner);
    expect(pids.map(isAlive)).toEqual([true, true, true]);
    await start({ lockPath });
    expect(pids.map(isAlive)).toEqual([false, false, false]);
  });

  test('the next spawner is ready only when processes that die slowly are gone', async () => {
    const lockPath = join(await makeDirectory(), 'spawner.lock');
    const { engine, gone, pids, spawner } = await startEngine(lockPath, 512);
    process.kill(spawner, 'SIGSTOP');
    engine.kill('SIGKILL');
    await gone;
    process.kill(spawner, 'SIGKILL');
    await waitForDeath(spawner);
    await start({ lockPath });
    expect(pids.map(isAlive)).toEqual([false, false, false]);
  });

  test('the spawner is killed: runs are lost, groups die, and the next run works', async () => {
    const deaths: string[] = [];
    const host = await start({ onSpawnerDeath: () => deaths.push('dead') });
    const { pid, end } = await startHanging(host);
    const spawner = parentOf(pid);
    process.kill(spawner, 'SIGKILL');
    await expect(end).rejects.toMatchObject({ code: 'SPAWNER_FAILED' });
    expect(deaths).toEqual(['dead']);
    await waitForDeath(pid);
    const next = await host.run(makeSpec('echoes-stdin'), Buffer.from('again'));
    expect(next.stdout.toString()).toBe('again');
  });

  test('requests that are on their way when the spawner dies are lost, not stuck', async () => {
    const host = await start();
    const { pid } = await startHanging(host);
    const spawner = parentOf(pid);
    process.kill(spawner, 'SIGSTOP');
    const sent = host.run(makeSpec('echoes-stdin'), Buffer.alloc(8 * 1024 * 1024));
    await new Promise(setImmediate);
    process.kill(spawner, 'SIGKILL');
    await expect(sent).rejects.toMatchObject({ code: 'SPAWNER_FAILED' });
  });

  test('the deadline passes without a renewal', async () => {
    const host = await start();
    const first = await startHanging(host);
    host.renew(60_000);
    const second = await startHanging(host);
    host.renew(100);
    for (const { end, pid } of [first, second]) {
      expect(await end).toMatchObject({
        exit: { kind: 'signalled', signal: 'SIGKILL' },
        stopped: 'fenced',
      });
      expect(isAlive(pid)).toBe(false);
    }
    const refused = await host.run(makeSpec('echoes-stdin'), nothing);
    expect(refused).toMatchObject({ exit: { kind: 'unstarted' }, stopped: 'fenced' });
    host.renew(60_000);
    const allowed = await host.run(makeSpec('echoes-stdin'), Buffer.from('yes'));
    expect(allowed.stdout.toString()).toBe('yes');
  });

  test('a new spawner keeps to the deadline of the one that died', async () => {
    const died = Promise.withResolvers<void>();
    const host = await start({ onSpawnerDeath: died.resolve });
    const { pid } = await startHanging(host);
    host.renew(0);
    process.kill(parentOf(pid), 'SIGKILL');
    await died.promise;
    const end = await host.run(makeSpec('echoes-stdin'), nothing);
    expect(end).toMatchObject({ exit: { kind: 'unstarted' }, stopped: 'fenced' });
  });

  test('stopping reports how each process ended, and accepts no more', async () => {
    const host = await start();
    const { pid, end } = await startHanging(host);
    await host.stop();
    expect(await end).toMatchObject({ stopped: 'shutdown', pid });
    expect(isAlive(pid)).toBe(false);
    const late = host.run(makeSpec('echoes-stdin'), nothing);
    await expect(late).rejects.toMatchObject({ code: 'STOPPING' });
  });

  test.each(builds)('waits for the lock that a %s spawner holds', async (other) => {
    const lockPath = join(await makeDirectory(), 'spawner.lock');
    const first = await startHost({ ...optionsOf(other, spawnerBuilds.pathOf(other)), lockPath });
    const { pid, end } = await startHanging(first);
    let isReady = false;
    const second = start({ lockPath }).then(() => {
      isReady = true;
      return { foundAlive: isAlive(pid) };
    });
    // Long enough for the second to have tried: a process of its own comes and goes meanwhile.
    await first.run(makeSpec('splits-a-character'), nothing);
    expect(isReady).toBe(false);
    await first.stop();
    // Their words come over two pipes, in either order; what was started by the first is gone.
    expect(await second).toEqual({ foundAlive: false });
    expect(await end).toMatchObject({ stopped: 'shutdown' });
    expect(statSync(lockPath).mode & 0o777).toBe(0o600);
    expect(statSync(lockPath).size).toBe(0);
  });

  test('gives up waiting for the lock when it is stopped', async () => {
    const lockPath = join(await makeDirectory(), 'spawner.lock');
    await start({ lockPath });
    const options = optionsOf(build, spawnerBuilds.pathOf(build));
    const second = makeHost({ ...options, nodeScript, lockPath, log: () => {} });
    const starting = second.start();
    starting.catch(() => {});
    await second.stop();
    await expect(starting).rejects.toMatchObject({ code: 'STOPPING' });
  });
});

describe('the choice of the spawner', () => {
  test('falls back to Node when there is no native one', async () => {
    const messages: string[] = [];
    const log = (_level: string, message: string): void => void messages.push(message);
    const host = await startHost({ kind: 'auto', nativePath: '/no/such/spawner', log });
    expect(host.kind).toBe('node');
    expect(messages).toContain('no native spawner, using the slower one');
    const end = await host.run(makeSpec('echoes-stdin'), Buffer.from('x'));
    expect(end.stdout.toString()).toBe('x');
  });

  test.each([
    ['ends at once', 'exit 3'],
    ['speaks another version', "printf '\\010\\000\\000\\000\\020DUCT\\143\\000\\001'; cat"],
    ['talks nonsense', 'echo nonsense; cat'],
  ])('falls back when the native one %s', async (_name, script) => {
    const nativePath = join(await makeDirectory(), 'spawner');
    writeFileSync(nativePath, `#!/bin/sh\n${script}\n`);
    chmodSync(nativePath, 0o755);
    const host = await startHost({ kind: 'auto', nativePath });
    expect(host.kind).toBe('node');
  });

  test('refuses to start when only the native one will do and it is missing', async () => {
    const starting = startHost({ kind: 'native', nativePath: '/no/such/spawner' });
    await expect(starting).rejects.toMatchObject({ code: 'SPAWNER_FAILED' });
  });

  test.runIf(builds.includes('native'))('takes the native one when it is there', async () => {
    const host = await startHost({ kind: 'auto', nativePath: spawnerBuilds.pathOf('native') });
    expect(host.kind).toBe('native');
  });
});

const nativeBuilds = builds.filter((build): build is Build => build !== 'node');

test.for(nativeBuilds)('the %s spawner says when the host is full', async (build) => {
  const nativePath = join(await makeDirectory(), 'spawner');
  writeFileSync(nativePath, `#!/bin/sh\nulimit -n 24\nexec ${spawnerBuilds.pathOf(build)} "$@"\n`);
  chmodSync(nativePath, 0o755);
  const host = await startHost({ kind: 'native', nativePath });
  const controller = new AbortController();
  const { signal } = controller;
  const runs = Array.from({ length: 12 }, () =>
    host.run(makeSpec('hangs'), nothing, { signal }).then((end) => {
      if (end.exit.kind === 'unstarted') controller.abort();
      return end;
    }),
  );
  const exits = (await Promise.all(runs)).map(({ exit }) => exit);
  const full = exits.filter(({ kind }) => kind === 'unstarted');
  expect(full.length).toBeGreaterThan(0);
  for (const exit of full) {
    expect(exit).toEqual({ kind: 'unstarted', code: 'EMFILE', hostFull: true });
  }
  expect(exits.some(({ kind }) => kind === 'signalled')).toBe(true);
  const after = await host.run(makeSpec('echoes-stdin'), Buffer.from('again'));
  expect(after.stdout.toString()).toBe('again');
});

function findZombiesOf(parent: number): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && parentOf(pid) === parent && readState(pid) === 'Z');
}

function killAll(pids: readonly number[]): void {
  for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
}
