/** `init` runs once for each configuration of a plugin, before anything else of it. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { overlayLedger } from '../../src/ledger/ledger.ts';
import {
  databases,
  eventually,
  makePlace,
  type Database,
  type TestInstance,
  type TestPlace,
} from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

const commands = '{poll: {}, init: {}, health: {type: read}}';

/** Records its requests; its init fails if its configuration says so. */
const setsUp = python(`
note(command, request["config"].get("word"), attempt)
if command == "init":
    if "gate" in request["config"]: wait_for(request["config"]["gate"])
    if request["config"].get("fails") and not os.path.exists("../../gate-mended"): fail("no such account")
ok(state_updates={"last": command})`);

function worker(config: Record<string, string | boolean>) {
  return { worker: { program: setsUp, commands, settings: { config } } };
}

function makeWorker(database: Database, config: Record<string, string | boolean>) {
  return makePlace({ database, plugins: worker(config) });
}

function direct({ engine }: TestInstance, type: string, params = {}) {
  return engine.direct({ type, params, actor: 'test' });
}

async function healthOf({ ledger }: TestInstance) {
  const rows = await ledger.plugins.listHealth();
  return rows.map(({ plugin, kind, status, reason }) => [plugin, kind, status, reason]);
}

async function settled(instance: TestInstance, status: string): Promise<void> {
  await eventually(`it is ${status}`, async () =>
    (await instance.ledger.plugins.reviewHealth()).some((row) => row.status === status),
  );
}

async function inits(place: TestPlace): Promise<string[]> {
  return (await place.notes()).filter((line) => line.startsWith('init'));
}

describe.each(databases)('init on %s', (database) => {
  test('comes before the first other job, and once over restarts', async () => {
    const place = await makeWorker(database, { word: 'one', gate: 'go' });
    const first = await place.start();
    const id = await first.submit('worker');
    await eventually('it has begun', async () => (await inits(place)).length === 1);
    expect((await first.ledger.jobs.find(id))?.status).toBe('queued');
    await place.openGate('go');
    expect((await first.ended(id)).status).toBe('succeeded');
    expect(await place.notes()).toEqual(['init one 1', 'poll one 1']);
    expect(await healthOf(first)).toEqual([['worker', 'init', 'healthy', null]]);
    await first.close();
    const second = await place.start();
    expect((await second.run('worker')).status).toBe('succeeded');
    expect(await inits(place)).toEqual(['init one 1']);
  });

  test('is not tried again when it fails; what else there is waits until it has succeeded', async () => {
    const place = await makeWorker(database, { word: 'one', fails: true });
    const instance = await place.start();
    await settled(instance, 'unhealthy');
    const id = await instance.submit('worker');
    const check = await instance.run('worker', {}, { command: 'health' });
    expect(check.status).toBe('succeeded');
    expect((await instance.ledger.jobs.find(id))?.status).toBe('queued');
    expect(await inits(place)).toEqual(['init one 1']);
    expect(await healthOf(instance)).toEqual([['worker', 'init', 'unhealthy', 'no such account']]);
    expect(instance.records).toContainEqual(
      expect.objectContaining({ level: 'error', plugin: 'worker', reason: 'no such account' }),
    );
    await place.openGate('mended');
    const { result } = await direct(instance, 'plugin.init', { plugin: 'worker' });
    expect(await instance.ended(result?.['job_id'] as string)).toMatchObject({
      command: 'init',
      status: 'succeeded',
    });
    expect((await instance.ended(id)).status).toBe('succeeded');
    expect(await place.notes()).toEqual(['init one 1', 'health one 1', 'init one 1', 'poll one 1']);
  });

  test('that is repeated starts nothing else, even by a claim in progress', async () => {
    const place = await makeWorker(database, { word: 'one', gate: 'go' });
    await place.openGate('go');
    let held: Promise<void> | undefined;
    let letGo: () => void = () => undefined;
    let isAsked = false;
    const instance = await place.start({
      ledger: (real) =>
        overlayLedger(real, {
          jobs: {
            settle: async (closings, claim) => {
              if (held !== undefined && claim?.plugins.some(({ init }) => init?.isHeld === false)) {
                isAsked = true;
                await held;
              }
              return await real.jobs.settle(closings, claim);
            },
          },
        }),
    });
    await instance.run('worker');
    await rm(join(place.directory, 'gate-go'));
    held = new Promise((resolve) => (letGo = resolve));
    await eventually('a claim is under way', () => isAsked);
    let isAnswered = false;
    const answer = direct(instance, 'plugin.init', { plugin: 'worker' }).then(
      () => (isAnswered = true),
    );
    await settled(instance, 'pending');
    await sleep(50);
    expect(isAnswered).toBe(false);
    held = undefined;
    letGo();
    await answer;
    const waiting = await instance.submit('worker');
    await eventually('the init has begun', async () => (await inits(place)).length === 2);
    expect((await instance.ledger.jobs.find(waiting))?.status).toBe('queued');
    await place.openGate('go');
    expect((await instance.ended(waiting)).status).toBe('succeeded');
  });

  test('runs again when a reload changes the configuration, and not otherwise', async () => {
    const place = await makeWorker(database, { word: 'one' });
    const instance = await place.start();
    await instance.run('worker');
    await place.vary({ service: { max_workers: 7 } });
    await direct(instance, 'config.reload');
    await instance.run('worker');
    await place.vary({ plugins: worker({ word: 'two' }) });
    await direct(instance, 'config.reload');
    await instance.run('worker');
    expect(await place.notes()).toEqual([
      'init one 1',
      'poll one 1',
      'poll one 1',
      'init two 1',
      'poll two 1',
    ]);
  });

  test('that did not begin gives way to the one for a newer configuration', async () => {
    const blocker = { program: python('note("blocks"); wait_for("free"); ok()') };
    const plugins = { blocker, ...worker({ word: 'one' }) };
    const place = await makePlace({ database, plugins: { blocker }, service: { max_workers: 1 } });
    const instance = await place.start();
    const blocking = await instance.submit('blocker');
    await eventually('it blocks', async () => (await place.notes()).length === 1);
    const files = { name: 'worker', entrypoint: 'run', program: setsUp };
    const directory = join(place.directory, 'plugins', 'worker');
    await writePlugin(directory, { ...files, commands: `commands: ${commands}` });
    await place.vary({ plugins });
    await direct(instance, 'config.reload');
    await place.vary({ plugins: { blocker, ...worker({ word: 'two' }) } });
    await direct(instance, 'config.reload');
    await place.openGate('free');
    await instance.ended(blocking);
    await instance.run('worker');
    expect(await place.notes()).toEqual(['blocks', 'init two 1', 'poll two 1']);
    const rows = await instance.ledger.jobs.list({ plugin: 'worker', command: 'init', limit: 9 });
    expect(rows.map(({ status }) => status)).toEqual(['succeeded', 'cancelled']);
  });
});

test('exactly one of many hosts runs it, and all wait for it', async () => {
  const place = await makeWorker('postgres', { word: 'one', gate: 'go' });
  const hosts = await Promise.all([place.start(), place.start(), place.start()]);
  const ids = await Promise.all(hosts.map((host) => host.submit('worker')));
  await eventually('it has begun', async () => (await inits(place)).length === 1);
  await place.openGate('go');
  for (const [index, host] of hosts.entries()) {
    expect((await host.ended(ids[index] ?? '')).status).toBe('succeeded');
  }
  expect(await inits(place)).toEqual(['init one 1']);
  const [first] = await place.notes();
  expect(first).toBe('init one 1');
});

test('a host with another configuration leaves the init to hosts that have it', async () => {
  const place = await makeWorker('postgres', { word: 'one' });
  const old = await place.start();
  await old.run('worker');
  const fresh = await (await place.vary({ plugins: worker({ word: 'two', gate: 'go' }) })).start();
  await eventually('it has begun', async () => (await inits(place)).length === 2);
  expect((await old.run('worker')).status).toBe('succeeded');
  await place.openGate('go');
  await settled(fresh, 'healthy');
  const words = (await inits(place)).map((line) => line.split(' ')[1]);
  expect(words).toEqual(['one', 'two']);
});

test('an init that is asked for on one host holds the jobs of all', async () => {
  const place = await makeWorker('postgres', { word: 'one', fails: true });
  await place.openGate('mended');
  const [one, two] = await Promise.all([place.start(), place.start()]);
  await one.run('worker');
  await two.run('worker');
  await rm(join(place.directory, 'gate-mended'));
  await direct(one, 'plugin.init', { plugin: 'worker' });
  await settled(one, 'unhealthy');
  await eventually('both know', () =>
    [one, two].every(({ records }) => records.some(({ level }) => level === 'error')),
  );
  const id = await two.submit('worker');
  expect((await two.engine.waitFor(id, 500)).status).toBe('queued');
  await place.openGate('mended');
  await direct(two, 'plugin.init', { plugin: 'worker' });
  expect((await one.ended(id)).status).toBe('succeeded');
});

test("the limits of a plugin aren't part of its init", async () => {
  const place = await makeWorker('sqlite', { word: 'one' });
  const instance = await place.start();
  await instance.run('worker');
  const settings = { config: { word: 'one' }, parallelism: 1, timeouts: { poll: '5s' } };
  await place.vary({ plugins: { worker: { program: setsUp, commands, settings } } });
  await direct(instance, 'config.reload');
  await instance.run('worker');
  expect(await inits(place)).toHaveLength(1);
});
