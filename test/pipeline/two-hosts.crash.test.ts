/** A host dies in the middle of a wide run, and another process finishes the run. */
import { noRules } from '../../src/ledger/rules.ts';
import { expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { makeClient } from '../support/crash/client.ts';
import { launch } from '../support/crash/server.ts';

const patienceMs = 60_000;
const RUNS_MAX = 20;

function makeWidePlace(database: Database) {
  return makePlace({
    database,
    plugins: { worker: { program: succeeds, commands: '{poll: {}}' } },
    pipelines: [
      {
        name: 'wide',
        steps: [
          { id: 'all', foreach: 'payload.items', steps: [{ id: 'work', uses: 'worker.poll' }] },
        ],
      },
    ],
    service: {
      heartbeat_interval: '100ms',
      reap_after: database === 'postgres' ? '1500ms' : '400ms',
      max_crashes: 100,
    },
  });
}

test.each(['advance.before-commit:kill:1', 'advance.after-commit:kill:1'])(
  'two hosts, and one is killed at %s',
  async (probe) => {
    const place = await makeWidePlace('postgres');
    const victim = launch(place.directory, probe);
    const { control } = await victim.ready;
    const { ledger } = await place.start();
    const client = makeClient(() => control);
    const width = limits.advanceBatchMax + 20;
    const payload = { items: Array.from({ length: width }, (_, index) => index) };
    // The first host advances a run; sooner or later that is the one that crashes.
    for (let runs = 0; runs < RUNS_MAX && victim.isAlive; runs += 1) {
      await client.post('/pipeline/wide', { payload }).catch(() => 'it died meanwhile');
    }
    expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const runs = await eventually(
      'all runs have ended',
      async () => {
        const found = await ledger.runs.list({ limit: 2 * RUNS_MAX });
        return found.every(({ completedAt }) => completedAt !== null) ? found : undefined;
      },
      patienceMs,
    );
    expect(runs.length).toBeGreaterThan(0);
    for (const run of runs) {
      expect(run.status).toBe('succeeded');
      expect(await ledger.runs.listBranches({ runId: run.id, limit: 2 * width })).toHaveLength(
        width + 1,
      );
    }
    expect(await ledger.check()).toEqual([]);
  },
);

test.each(databases)('a host on %s is killed while it cancels a wide run', async (database) => {
  const place = await makeWidePlace(database);
  const opened = await openLedger(place.config.state, noRules);
  await opened.meta.write('paused', '1');
  await opened.close();
  const width = 3 * limits.cancelBatchMax;
  const batches = Math.ceil(width / limits.advanceBatchMax);
  const payload = { items: Array.from({ length: width }, (_, index) => index) };
  // The block starts first. The second advancement after that is a part of the cancellation.
  const victim = launch(place.directory, `advance.after-commit:kill:${batches + 1}`);
  const { control } = await victim.ready;
  const client = makeClient(() => control);
  const { body } = await client.post('/pipeline/wide', { payload });
  const runId = body['run_id'] as string;
  const isBegun = async () => (await client.backlog()) === width;
  await eventually('all of it is queued', isBegun, patienceMs);
  await client.post(`/runs/${runId}/cancel`).catch(() => 'it died meanwhile');
  expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });

  const server = launch(place.directory);
  const second = await server.ready;
  const next = makeClient(() => second.control);
  await eventually('nothing is queued', async () => (await next.backlog()) === 0, patienceMs);
  expect(await server.stop()).toEqual({ code: 0, signal: null });
  const ledger = await openLedger(place.config.state, noRules);
  expect(await ledger.runs.find(runId)).toMatchObject({ status: 'cancelled' });
  expect(await ledger.jobs.count({ status: ['cancelled'], limit: 2 * width })).toBe(width);
  expect(await ledger.check()).toEqual([]);
  await ledger.close();
});
