/** Reloads and inits of the program as people run it: by signals, and killed in the middle. */
import { noRules } from '../../src/ledger/rules.ts';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace, type TestPlace } from '../support/instance.ts';
import { hasNotifyProgram, openNotifySocket } from '../support/notify-socket.ts';
import { python } from '../support/plugin-program.ts';
import { makeClient, type Client } from '../support/crash/client.ts';
import { launch, type Server } from '../support/crash/server.ts';
import { makeCrashTest } from '../support/crash/crash-test.ts';

async function started(place: TestPlace): Promise<{ server: Server; client: Client }> {
  const server = launch(place.directory);
  const { control } = await server.ready;
  return { server, client: makeClient(() => control) };
}

async function logged(server: Server, message: string, times = 1): Promise<void> {
  await eventually(`it says: ${message}`, () => {
    return server.records.filter((record) => record.message === message).length === times;
  });
}

/** The command line in a process of its own. */
async function cli({ directory }: TestPlace, ...words: string[]) {
  const script = join(import.meta.dirname, '../../bin/ductile.cjs');
  const args = [script, ...words, '--config', directory];
  const options = { env: { PATH: process.env['PATH'], HOME: directory } };
  return new Promise<{ code: unknown; answer: unknown }>((done) => {
    execFile(process.execPath, args, options, (error, stdout, stderr) => {
      done({ code: error?.code ?? 0, answer: JSON.parse(stdout === '' ? stderr : stdout) });
    });
  });
}

const reloaded = 'the configuration was reloaded';
const refused = 'the reload was refused';

describe.each(databases)('SIGHUP on %s', (database) => {
  test('is answered again and again while jobs run; none is lost or run twice', async () => {
    const crashTest = await makeCrashTest(database, { max_workers: 2 });
    const server = await crashTest.start();
    const rounds = 6;
    for (let round = 1; round <= rounds; round += 1) {
      for (let job = 0; job < 4; job += 1) await crashTest.client.enqueue({ sleep_ms: 40 });
      await crashTest.place.vary({ service: { max_workers: 1 + (round % 4) } });
      server.signal('SIGHUP');
      await logged(server, reloaded, round);
    }
    await crashTest.drain();
    const status = await crashTest.client.get('/system/status');
    expect(status.body).toMatchObject({
      slots: 1 + (rounds % 4),
      generation: { number: rounds + 1, last_reload: { by: 'signal:SIGHUP', refused: null } },
    });
    const { faults, counts } = await crashTest.verify();
    expect(faults).toEqual([]);
    expect(counts.acknowledged).toBe(rounds * 4);
    expect(counts.crashed).toBe(0);
  });
});

test('a wrong configuration is refused, and the process continues with the old one', async () => {
  const program = python('note(request["config"].get("word")); ok()');
  const plugins = { recorder: { program, settings: { config: { word: 'old' } } } };
  const place = await makePlace({ plugins });
  const { server, client } = await started(place);
  const file = join(place.directory, 'config.yaml');
  const good = await readFile(file, 'utf8');
  await writeFile(file, good.replace('"old"', '"new"').replace('"plugin_roots"', '"plugin_rots"'));
  server.signal('SIGHUP');
  await logged(server, refused);
  const response = await client.post('/system/reload');
  expect(response).toMatchObject({ status: 409, body: { code: 'RELOAD_REFUSED' } });
  expect(response.body['error']).toEqual(expect.stringContaining('plugin_rots'));
  const result = await cli(place, 'system', 'reload', '--json');
  expect(result).toMatchObject({ code: 78, answer: { code: 'RELOAD_REFUSED' } });
  const planned = await cli(place, 'system', 'reload', '--dry-run', '--json');
  expect(planned).toMatchObject({ code: 78, answer: { code: 'RELOAD_REFUSED' } });
  await client.enqueue();
  await eventually('it ran', async () => (await place.notes()).length === 1);
  await writeFile(file, good.replace('"old"', '"new"'));
  const answer = await client.post('/system/reload');
  expect(answer).toMatchObject({ status: 200, body: { status: 'ok', generation: 2 } });
  await client.enqueue();
  await eventually('it ran again', async () => (await place.notes()).length === 2);
  expect(await place.notes()).toEqual(['old', 'new']);
  expect(await server.stop()).toEqual({ code: 0, signal: null });
});

test('SIGHUP before it is ready waits until it is', async () => {
  const place = await makePlace({ plugins: { recorder: { program: python('ok()') } } });
  const server = launch(place.directory);
  const ready = server.ready;
  const early = setInterval(() => server.records.length > 0 && server.signal('SIGHUP'), 1);
  await ready;
  clearInterval(early);
  server.signal('SIGHUP');
  await eventually('it has reloaded', () =>
    server.records.some(({ message }) => message === reloaded),
  );
  expect(await server.stop()).toEqual({ code: 0, signal: null });
});

describe.each(databases)('a process on %s that is killed during an init', (database) => {
  test('leaves it to the next one, before anything else of the plugin', async () => {
    const program = python(`
note(command, attempt)
if command == "init" and attempt == 1: wait_for("never")
ok()`);
    const commands = '{poll: {}, init: {}}';
    const place = await makePlace({
      database,
      plugins: { recorder: { program, commands } },
      service: {
        heartbeat_interval: '100ms',
        reap_after: database === 'postgres' ? '1500ms' : '400ms',
      },
    });
    const first = await started(place);
    await first.client.enqueue();
    await eventually('it has begun', async () => (await place.notes()).length === 1);
    await first.server.kill();
    const second = await started(place);
    await eventually('all is done', async () => (await place.notes()).length === 3);
    expect(await place.notes()).toEqual(['init 1', 'init 2', 'poll 1']);
    await eventually('nothing is left', async () => (await second.client.backlog()) === 0);
    expect(await second.server.stop()).toEqual({ code: 0, signal: null });
    const ledger = await openLedger(place.config.state, noRules);
    const health = await ledger.plugins.listHealth();
    await ledger.close();
    expect(health.map(({ plugin, status }) => [plugin, status])).toEqual([['recorder', 'healthy']]);
  });
});

test.runIf(hasNotifyProgram)('systemd hears of every stage of its life', async () => {
  const place = await makePlace({ plugins: { recorder: { program: python('ok()') } } });
  const { path, messages } = await openNotifySocket();
  const server = launch(place.directory, '', { NOTIFY_SOCKET: path, WATCHDOG_USEC: '400000' });
  const hears = (word: string, times = 1): Promise<boolean> =>
    eventually(
      `it says ${word}`,
      () => messages.filter((message) => message.includes(word)).length >= times,
    );
  await hears('READY=1');
  await hears('WATCHDOG=1', 2);
  server.signal('SIGHUP');
  await hears('RELOADING=1');
  await hears('READY=1', 2);
  expect(await server.stop()).toEqual({ code: 0, signal: null });
  await hears('STOPPING=1');
  const stages = messages.flatMap(
    (message) => /(READY|RELOADING|STOPPING)=1/.exec(message)?.[1] ?? [],
  );
  expect(stages).toEqual(['READY', 'RELOADING', 'READY', 'STOPPING']);
});
