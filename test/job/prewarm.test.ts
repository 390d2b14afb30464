import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { waitForDeath } from '../support/hosts.ts';
import {
  eventually,
  makePlace,
  type SubmitMore,
  type TestInstance,
  type TestPlace,
} from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';

/** Notes its pid as soon as it is there, before it has a request. */
function early(version: string, body = ''): string {
  return python(
    `${body}
ok(f"${version} {os.getpid()}")`,
    `note("${version}", os.getpid())`,
  );
}

function makePrewarmed(program: string, settings: JsonObject = {}): Promise<TestPlace> {
  const manifest = 'prewarm: true';
  const plugins = { worker: { program, manifest, settings: { prewarm: 2, ...settings } } };
  return makePlace({ plugins });
}

/** The pids of those that have started, when there are enough. */
function startedPids(place: TestPlace, version: string, count: number): Promise<number[]> {
  return eventually(`${count} of ${version} have started`, async () => {
    const lines = (await place.notes()).filter((line) => line.startsWith(`${version} `));
    return lines.length >= count && lines.map((line) => Number(line.split(' ')[1]));
  });
}

async function answererOf(
  instance: TestInstance,
  more: SubmitMore = {},
): Promise<[version: string, pid: number]> {
  const job = await instance.run('worker', {}, more);
  expect(job).toMatchObject({ status: 'succeeded', attempt: 1 });
  const [row, ...others] = await instance.attempts(job.id);
  expect(others).toEqual([]);
  const { result } = JSON.parse(row?.result ?? '') as { result: string };
  const [version = '', pid] = result.split(' ');
  return [version, Number(pid)];
}

test('a process that was started ahead answers, and another takes its place', async () => {
  const place = await makePrewarmed(early('v1'));
  const instance = await place.start();
  const waiting = await startedPids(place, 'v1', 2);
  const [, first] = await answererOf(instance);
  expect(waiting).toContain(first);
  const [, second] = await answererOf(instance);
  expect(waiting).toContain(second);
  expect(second).not.toBe(first);
  const later = await startedPids(place, 'v1', 4);
  await instance.close();
  for (const pid of later) await waitForDeath(pid);
});

test('a reload replaces those that wait for a plugin that it changes, and ends those of others', async () => {
  const place = await makePrewarmed(early('v1'));
  const instance = await place.start();
  const reload = () => instance.engine.direct({ type: 'config.reload', params: {}, actor: 'test' });
  const old = await startedPids(place, 'v1', 2);
  const entry = (settings: JsonObject) => ({ worker: { program: '', settings } });
  await place.vary({ plugins: entry({ prewarm: 1, config: { word: 'new' } }) });
  await reload();
  for (const pid of old) await waitForDeath(pid);
  const [, , fresh = 0] = await startedPids(place, 'v1', 3);
  expect(await answererOf(instance)).toEqual(['v1', fresh]);
  const [, , , last = 0] = await startedPids(place, 'v1', 4);
  await place.vary({ plugins: entry({ prewarm: 0, config: { word: 'new' } }) });
  await reload();
  await waitForDeath(last);
});

test('a reload that changes the environment of plugins replaces those that wait', async () => {
  const place = await makePrewarmed(early('v1'));
  const instance = await place.start();
  const old = await startedPids(place, 'v1', 2);
  await place.vary({
    service: { plugin_env_passthrough: ['USER', 'LANG', 'HOME', 'SHELL', 'PWD'] },
  });
  await instance.engine.direct({ type: 'config.reload', params: {}, actor: 'test' });
  for (const pid of old) await waitForDeath(pid);
  const [, , ...fresh] = await startedPids(place, 'v1', 4);
  expect(fresh).toContain((await answererOf(instance))[1]);
});

test('a program that changes on disk replaces those that wait', async () => {
  const place = await makePrewarmed(early('v1'));
  const instance = await place.start();
  const old = await startedPids(place, 'v1', 2);
  const file = join(place.directory, 'plugins', 'worker', 'run');
  const { mtimeMs } = await stat(file);
  await eventually('the file is newer', async () => {
    await writeFile(file, early('v2'));
    return (await stat(file)).mtimeMs > mtimeMs;
  });
  expect((await answererOf(instance))[0]).toBe('v2');
  for (const pid of old) await waitForDeath(pid);
  const renewed = await startedPids(place, 'v2', 3);
  const [version, pid] = await answererOf(instance);
  expect(version).toBe('v2');
  expect(renewed).toContain(pid);
});

test('a process that dies before its request costs no attempt', async () => {
  const place = await makePrewarmed(early('v1'));
  const instance = await place.start();
  const waiting = await startedPids(place, 'v1', 2);
  for (const pid of waiting) {
    process.kill(pid, 'SIGKILL');
    await waitForDeath(pid);
  }
  const [, pid] = await answererOf(instance);
  expect(waiting).not.toContain(pid);
});

test('a process that dies after its request began is an ordinary failure', async () => {
  const place = await makePrewarmed(early('v1', 'if attempt == 1: os.kill(os.getpid(), 9)'));
  const instance = await place.start();
  await startedPids(place, 'v1', 2);
  const job = await instance.run('worker');
  expect(job).toMatchObject({ status: 'succeeded', attempt: 2, retryCount: 1 });
  expect((await instance.attempts(job.id))[0]).toMatchObject({ cause: 'signal', status: 'failed' });
});

test('the time of the command counts, from the request on', async () => {
  const place = await makePrewarmed(early('v1', 'time.sleep(60)'), {
    timeouts: { poll: '300ms' },
    retry: { max_attempts: 1 },
  });
  const instance = await place.start();
  const waiting = await startedPids(place, 'v1', 2);
  const job = await instance.run('worker');
  expect(job.status).toBe('timed_out');
  const [row] = await instance.attempts(job.id);
  expect(waiting).toContain(row?.pid);
  expect(row?.runMs).toBeGreaterThanOrEqual(300);
  expect(row?.runMs).toBeLessThan(5000);
});

test('a plugin that did not consent is not started ahead', async () => {
  const program = early('v1');
  const place = await makePlace({ plugins: { worker: { program, settings: { prewarm: 2 } } } });
  const { submit, records } = await place.start();
  await expect(submit('worker')).rejects.toMatchObject({ code: 'PLUGIN_NOT_FOUND' });
  expect(records).toContainEqual(expect.objectContaining({ level: 'error', plugin: 'worker' }));
  expect(await place.notes()).toEqual([]);
});

test('a process stands by after repeated waits, and ends with the engine', async () => {
  const plugins = { worker: { program: early('v1'), manifest: 'prewarm: true' } };
  const place = await makePlace({ plugins });
  const instance = await place.start();
  const awaited = { isAwaited: true };
  const [, first] = await answererOf(instance, awaited);
  const [, second] = await answererOf(instance, awaited);
  const [, , ahead = 0] = await startedPids(place, 'v1', 3);
  expect([first, second]).not.toContain(ahead);
  expect((await answererOf(instance, awaited))[1]).toBe(ahead);
  const [, , , last = 0] = await startedPids(place, 'v1', 4);
  await instance.close();
  await waitForDeath(last);
});
