/** The service is killed during the start of a run with a delay or a key: the run starts once. */
import { noRules } from '../../src/ledger/rules.ts';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { shell } from '../support/plugin-program.ts';
import { makeClient, type Client } from '../support/crash/client.ts';
import { launch } from '../support/crash/server.ts';

const patienceMs = 30_000;

/** Writes one line with the job's key for each execution. */
const notes = shell(`
request=$(cat)
key=\${request#*'"idempotency_key":"'}
echo "\${key%%'"'*}" >> ../../notes
echo '{"status":"ok","result":"noted"}'`);

function makeStage(database: Database) {
  return makePlace({
    database,
    plugins: { notes: { program: notes, commands: '{poll: {}}' } },
    pipelines: [
      {
        name: 'flow',
        concurrency: { key: '{payload.who}', limit: 1 },
        steps: [{ id: 'note', uses: 'notes.poll' }],
      },
      { name: 'free', steps: [{ id: 'note', uses: 'notes.poll' }] },
    ],
    service: {
      heartbeat_interval: '100ms',
      reap_after: database === 'postgres' ? '1500ms' : '400ms',
      max_crashes: 100,
    },
  });
}

async function runsOf(client: Client): Promise<JsonObject[]> {
  return (await client.get('/runs')).body['runs'] as JsonObject[];
}

async function untilAllSucceeded(client: Client): Promise<void> {
  const areOver = async (): Promise<boolean> => {
    const runs = await runsOf(client);
    return runs.length > 0 && runs.every(({ status }) => status === 'succeeded');
  };
  await eventually('all runs have succeeded', areOver, patienceMs);
}

const moments = databases.flatMap((database) =>
  [
    'enqueue.after-commit:kill:1',
    'advance.before-commit:kill:1',
    'advance.after-commit:kill:1',
  ].flatMap((probe) => ['free', 'flow'].map((name) => [database, name, probe] as const)),
);

test.each(moments)(
  'a delayed run on %s of %s, killed at %s, begins once',
  async (database, name, probe) => {
    const place = await makeStage(database);
    const victim = launch(place.directory, probe);
    const { control } = await victim.ready;
    const body = { payload: { who: 'ann' } };
    // A response may come or not; the committed row counts.
    const reply = await makeClient(() => control)
      .post(`/pipeline/${name}?delay=100ms`, body)
      .catch(() => undefined);
    expect(reply?.status ?? 202).toBe(202);
    expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });

    const server = launch(place.directory);
    const second = await server.ready;
    const client = makeClient(() => second.control);
    await untilAllSucceeded(client);
    expect(await runsOf(client)).toHaveLength(1);
    expect(await server.stop()).toEqual({ code: 0, signal: null });
    const ledger = await openLedger(place.config.state, noRules);
    expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(1);
    expect(await ledger.check()).toEqual([]);
    await ledger.close();
    expect(new Set(await place.notes()).size).toBe(1);
  },
);

test.each(databases)('a key on %s is still held when the response was lost', async (database) => {
  const place = await makeStage(database);
  const victim = launch(place.directory, 'enqueue.after-commit:kill:1');
  const { control } = await victim.ready;
  const path = '/pipeline/free?dedupe_key=k';
  await expect(makeClient(() => control).post(path, {})).rejects.toThrow();
  expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });

  const server = launch(place.directory);
  const second = await server.ready;
  const client = makeClient(() => second.control);
  const [first] = await runsOf(client);
  const { body } = await client.post(path, {});
  expect(body).toMatchObject({ run_id: first?.['run_id'], duplicate: true });
  await untilAllSucceeded(client);
  expect(await runsOf(client)).toHaveLength(1);
  expect(await server.stop()).toEqual({ code: 0, signal: null });
  expect(await place.notes()).toHaveLength(1);
});
