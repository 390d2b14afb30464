/** A new configuration takes effect while work continues. */
import { appendFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { lockFiles } from '../../src/config/integrity.ts';
import type { DirectiveResult } from '../../src/directive/result.service.ts';
import { loadCatalog } from '../../src/plugin/catalog.ts';
import { hashPlugins } from '../../src/plugin/lock.ts';
import {
  databases,
  eventually,
  makePlace,
  type TestInstance,
  type TestPlace,
} from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';

/** Records its configuration before and after it may continue. */
const tellsConfig = python(`
note("begin", request["job_id"], request["config"].get("word"))
wait_for(payload.get("gate", "none"))
note("end", request["job_id"], request["config"].get("word"))
ok(events=[{"type": "worker.done", "payload": {}}])`);

function reload({ engine }: TestInstance): Promise<DirectiveResult> {
  return engine.direct({ type: 'config.reload', params: {}, actor: 'test' });
}

function worker(word: string, more = {}) {
  return { worker: { program: tellsConfig, settings: { config: { word }, ...more } } };
}

async function waitForStarts(place: TestPlace, jobs: number): Promise<void> {
  await eventually('they have begun', async () => {
    const begins = (await place.notes()).filter((line) => line.startsWith('begin'));
    return begins.length === jobs;
  });
}

describe.each(databases)('a reload on %s', (database) => {
  test('leaves running attempts as they are, and the queued ones run with the new one', async () => {
    const place = await makePlace({
      database,
      plugins: worker('old', { parallelism: 1 }),
      service: { max_workers: 1 },
    });
    await place.openGate('none');
    const instance = await place.start();
    const running = await instance.submit('worker', { gate: 'one' });
    await waitForStarts(place, 1);
    const queued = await instance.submit('worker');
    await place.vary({ plugins: worker('new') });
    const answer = await reload(instance);
    expect(answer).toMatchObject({ status: 'completed', result: { generation: 2 } });
    await place.openGate('one');
    const jobs = [await instance.ended(running), await instance.ended(queued)];
    expect(jobs.map(({ status, attempt }) => [status, attempt])).toEqual([
      ['succeeded', 1],
      ['succeeded', 1],
    ]);
    expect(await place.notes()).toEqual([
      `begin ${running} old`,
      `end ${running} old`,
      `begin ${queued} new`,
      `end ${queued} new`,
    ]);
    const snapshots = await instance.ledger.snapshots.list(10);
    expect(snapshots.map(({ reason, generation }) => [reason, generation])).toEqual([
      ['reload', 2],
      ['start', 1],
    ]);
    expect(jobs.map(({ configSnapshotId }) => configSnapshotId)).toEqual([
      snapshots[1]?.id,
      snapshots[0]?.id,
    ]);
    expect(snapshots[0]?.hash).not.toBe(snapshots[1]?.hash);
  });

  test('changes nothing when the configuration is wrong, and says why', async () => {
    const place = await makePlace({ database, plugins: worker('old') });
    await place.openGate('none');
    const instance = await place.start();
    await place.vary({ plugins: worker('new') });
    const file = join(place.directory, 'config.yaml');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace('"max_workers":4', '"max_workers":"many"'));
    const answer = await reload(instance);
    expect(answer).toMatchObject({ status: 'failed', errorCode: 'RELOAD_REFUSED' });
    expect(answer.error).toMatch(/config\.yaml:\d+:\d+: service\.max_workers/);
    expect(answer.plan).toEqual([expect.stringContaining('The reload will be refused')]);
    const id = await instance.submit('worker');
    await instance.ended(id);
    expect(await place.notes()).toContain(`begin ${id} old`);
    expect(await instance.ledger.snapshots.list(10)).toHaveLength(1);
    expect(instance.engine.status().generation).toMatchObject({
      number: 1,
      lastReload: { by: 'test', refused: expect.stringContaining('max_workers') as string },
    });
  });
});

test.each([
  ['service.spawner', { service: { spawner: 'node' } }],
  ['service.log_format', { service: { log_format: 'text' } }],
])('a change of %s is refused', async (key, change) => {
  const place = await makePlace({ plugins: worker('old') });
  const instance = await place.start();
  await place.vary(change);
  const answer = await reload(instance);
  expect(answer).toMatchObject({ status: 'failed', errorCode: 'RELOAD_REFUSED' });
  expect(answer.error).toBe(`${key} cannot change while the process runs`);
  expect(instance.engine.status().generation.number).toBe(1);
});

test('a reload cannot switch off the check that refuses it', async () => {
  const strict = { service: { admission: { fail_on_drift: true } } };
  const place = await makePlace({ plugins: worker('old'), ...strict });
  lockFiles(place.directory, place.config.files, '2030-01-01T00:00:00.000Z');
  const instance = await place.start();
  await place.vary({ service: { admission: { fail_on_drift: false } } });
  const answer = await reload(instance);
  expect(answer).toMatchObject({ status: 'failed', errorCode: 'RELOAD_REFUSED' });
  const relaxed = loadConfig({ given: place.config.file });
  lockFiles(place.directory, relaxed.files, '2030-01-01T00:00:00.000Z');
  expect(await reload(instance)).toMatchObject({ status: 'completed' });
});

test("a pipeline that can't be compiled refuses the reload, and the active one stays", async () => {
  const flow = (uses: string) => ({ name: 'flow', steps: [{ id: 'one', uses }] });
  const place = await makePlace({ plugins: worker('old'), pipelines: [flow('worker')] });
  const instance = await place.start();
  const before = instance.engine.pipelines;
  expect(before).toMatchObject([{ graph: { nodes: { one: { plugin: 'worker' } } } }]);
  await place.vary({ pipelines: [flow('wroker')] });
  const answer = await reload(instance);
  expect(answer).toMatchObject({
    status: 'failed',
    error: expect.stringContaining('pipelines[0].steps[0].uses names wroker') as string,
  });
  expect(instance.engine.pipelines).toBe(before);
  await place.vary({ pipelines: [flow('worker'), { name: 'more', steps: [{ call: 'flow' }] }] });
  expect(await reload(instance)).toMatchObject({ status: 'completed' });
  expect(instance.engine.pipelines).toMatchObject([
    { graph: { hash: before[0]?.graph.hash } },
    { graph: { first: 'step_1/one' } },
  ]);
});

test('a plugin that changed after it was locked is reported, or refused if configured', async () => {
  const place = await makePlace({ plugins: worker('old') });
  const lock = ({ directory, config }: TestPlace): void => {
    const seals = hashPlugins(loadCatalog(config));
    lockFiles(directory, config.files, '2030-01-01T00:00:00.000Z', seals);
  };
  lock(place);
  const instance = await place.start();
  const ofPlugins = instance.records.filter(({ component }) => component === 'plugins');
  expect(ofPlugins.filter(({ level }) => level === 'warn')).toEqual([]);
  const program = join(place.directory, 'plugins', 'worker', 'run');
  await appendFile(program, '# changed\n');
  expect(await reload(instance)).toMatchObject({ status: 'completed' });
  expect(instance.records).toContainEqual(
    expect.objectContaining({
      level: 'warn',
      message: expect.stringContaining('has a different program than when it was locked'),
    }),
  );
  await instance.close();
  await rm(join(place.directory, '.checksums'));
  const strict = await place.vary({ service: { admission: { fail_on_drift: true } } });
  lock(strict);
  const careful = await strict.start();
  await appendFile(program, '# changed again\n');
  expect(await reload(careful)).toMatchObject({ status: 'failed', errorCode: 'RELOAD_REFUSED' });
  await careful.close();
  await expect(strict.start()).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  lock(strict);
  await strict.start();
});

test('more workers run more at once, from the moment of the reload', async () => {
  const place = await makePlace({ plugins: worker('one'), service: { max_workers: 1 } });
  const instance = await place.start();
  const ids = [
    await instance.submit('worker', { gate: 'all' }),
    await instance.submit('worker', { gate: 'all' }),
    await instance.submit('worker', { gate: 'all' }),
  ];
  await waitForStarts(place, 1);
  await place.vary({ service: { max_workers: 3 } });
  const { plan } = await reload(instance);
  expect(plan).toContain('service.max_workers: 1 → 3');
  await waitForStarts(place, 3);
  expect(instance.engine.status()).toMatchObject({ slots: 3 });
  await place.vary({ service: { max_workers: 1 } });
  await reload(instance);
  await place.openGate('all');
  for (const id of ids) expect((await instance.ended(id)).status).toBe('succeeded');
});

test('a shorter heartbeat is beaten from the moment of the reload', async () => {
  const service = { heartbeat_interval: '1h', reap_after: '3h' };
  const place = await makePlace({ plugins: worker('x'), service });
  const instance = await place.start();
  const lastBeat = async (): Promise<string> =>
    (await instance.ledger.processes.list())[0]?.lastHeartbeatAt ?? '';
  const first = await lastBeat();
  await place.vary({ service: { heartbeat_interval: '20ms', reap_after: '10s' } });
  await reload(instance);
  const second = await eventually('it beats', async () => {
    const at = await lastBeat();
    return at > first && at;
  });
  await eventually('it beats again', async () => (await lastBeat()) > second);
});

test('routes of the running attempt are those that it began with', async () => {
  const plugins = { ...worker('x'), catcher: { program: succeeds } };
  const place = await makePlace({ plugins });
  const instance = await place.start();
  const before = await instance.submit('worker', { gate: 'one' });
  await waitForStarts(place, 1);
  await place.vary({ routes: [{ from: 'worker', event_type: 'worker.done', to: 'catcher' }] });
  await reload(instance);
  await place.openGate('one');
  const after = await instance.submit('worker', { gate: 'one' });
  await instance.ended(before);
  await instance.ended(after);
  const caught = await instance.ledger.jobs.list({ plugin: 'catcher', limit: 10 });
  expect(caught.map(({ parentJobId }) => parentJobId)).toEqual([after]);
});

describe('jobs of a plugin that is removed', () => {
  const plugins = { ...worker('x'), other: { program: tellsConfig } };
  const without = { ...plugins, worker: { program: '', settings: { enabled: false } } };

  test('die with the reload where there is one host, also those that are to run later', async () => {
    const service = { max_workers: 1 };
    const place = await makePlace({ plugins, service });
    const instance = await place.start();
    const before = await instance.submit('other', { gate: 'one' });
    await waitForStarts(place, 1);
    const waiting = await instance.submit('worker');
    const later = await instance.submit('worker', {}, { due: { inMs: 3_600_000 } });
    await place.vary({ plugins: without });
    const { result } = await reload(instance);
    expect(result?.['changes']).toEqual([expect.stringContaining('worker is disabled')]);
    for (const id of [waiting, later]) {
      expect(await instance.ledger.jobs.find(id)).toMatchObject({
        status: 'dead',
        reason: 'no_runner',
      });
    }
    await place.openGate('one');
    expect((await instance.ended(before)).status).toBe('succeeded');
    await expect(instance.submit('worker')).rejects.toMatchObject({ code: 'PLUGIN_NOT_FOUND' });
  });

  test('end at once if a job that ran during the reload queues them', async () => {
    const routes = [{ event_type: 'worker.done', to: 'other.poll' }];
    const place = await makePlace({ plugins, routes });
    const instance = await place.start();
    const running = await instance.submit('worker', { gate: 'one' });
    await waitForStarts(place, 1);
    const disabled = { ...plugins, other: { program: '', settings: { enabled: false } } };
    await place.vary({ plugins: disabled });
    expect(await reload(instance)).toMatchObject({ status: 'completed' });
    await place.openGate('one');
    expect((await instance.ended(running)).status).toBe('succeeded');
    const [routed] = await instance.ledger.jobs.list({ plugin: 'other', limit: 9 });
    expect(await instance.ended(routed?.id ?? '')).toMatchObject({
      status: 'dead',
      reason: 'no_runner',
      lastError: expect.stringContaining('other was removed by a reload'),
    });
  });

  test('wait for the grace time where others may have it, and then die', async () => {
    // Short enough for a test, and long enough that a busy machine doesn't miss its heartbeats.
    const service = { max_workers: 1, reap_after: '3s' };
    const place = await makePlace({ database: 'postgres', plugins, service });
    const instance = await place.start();
    const before = await instance.submit('other', { gate: 'one' });
    await waitForStarts(place, 1);
    const id = await instance.submit('worker');
    await place.vary({ plugins: without });
    await reload(instance);
    await place.openGate('one');
    expect((await instance.ended(before)).status).toBe('succeeded');
    expect((await instance.ledger.jobs.find(id))?.status).toBe('queued');
    await expect(instance.submit('worker')).rejects.toMatchObject({ code: 'PLUGIN_NOT_FOUND' });
    await place.vary({ plugins: without, service: { ...service, runner_grace: '0s' } });
    await reload(instance);
    expect(await instance.ended(id)).toMatchObject({
      status: 'dead',
      reason: 'no_runner',
      lastError: expect.stringContaining('no process has had the plugin worker'),
    });
  });
});

test('two reloads at once are done one after the other', async () => {
  const place = await makePlace({ plugins: worker('x') });
  const instance = await place.start();
  const answers = await Promise.all([reload(instance), reload(instance), reload(instance)]);
  const generations = answers.map(({ result }) => result?.['generation']);
  expect(new Set(generations)).toEqual(new Set([2, 3, 4]));
});

test('a token of the files never takes the name of a token of the database', async () => {
  const token = (name: string) => ({ name, token: `${name}-0123456789abcdef`, scopes: ['*'] });
  const listen = { enabled: true, listen: '127.0.0.1:0' };
  const plugins = { worker: { program: succeeds } };
  const api = (...names: string[]) => ({ api: { ...listen, auth: { tokens: names.map(token) } } });
  const place = await makePlace({ plugins, ...api('file') });
  const instance = await place.start();
  const make = (name: string) =>
    instance.engine.direct({
      type: 'token.create',
      params: { name, role: 'admin' },
      actor: 'test',
    });
  expect(await make('ann')).toMatchObject({ status: 'completed' });
  await place.vary(api('file', 'ann'));
  expect(await reload(instance)).toMatchObject({
    status: 'failed',
    errorCode: 'RELOAD_REFUSED',
    error: expect.stringContaining('belongs or belonged to a token of the database'),
  });
  await place.vary(api('other'));
  expect(await reload(instance)).toMatchObject({ status: 'completed' });
  // A name that the files had once is as good as taken.
  for (const name of ['file', 'other']) {
    await expect(make(name)).rejects.toMatchObject({ code: 'TOKEN_EXISTS' });
  }
});
