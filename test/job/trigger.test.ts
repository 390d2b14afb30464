/** A job and runs that are accepted together. */
import { describe, expect, test } from 'vitest';
import { databases, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

const patienceMs = 20_000;
const request = { payload: {}, submittedBy: 'api', actor: 'test' } as const;
const pipelines = [{ name: 'flow', steps: [{ id: 'look', uses: 'worker.poll' }] }];

describe.each(databases)('a trigger on %s', (database) => {
  test('is refused as a whole when one part of it is', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: succeeds, commands: '{poll: {}}' } },
      pipelines,
    });
    const { engine, ledger } = await place.start();
    const job = { ...request, plugin: 'worker', command: 'poll' };
    const runs = ['flow', 'flaw'].map((pipeline) => ({ ...request, pipeline }));
    await expect(engine.trigger({ job, runs })).rejects.toMatchObject({
      code: 'PIPELINE_NOT_FOUND',
    });
    expect(await ledger.jobs.list({ limit: 9 })).toEqual([]);
    expect(await ledger.runs.list({ limit: 9 })).toEqual([]);
  });

  test('starts an init beside runs, and leaves it one', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: succeeds, commands: '{poll: {}, init: {}}' } },
      pipelines,
    });
    const { engine, ended } = await place.start();
    const job = { ...request, plugin: 'worker', command: 'init' };
    const result = await engine.trigger({ job, runs: [{ ...request, pipeline: 'flow' }] });
    const initId = result.job?.duplicateOf ?? result.job?.jobId ?? '';
    expect(await ended(initId)).toMatchObject({ command: 'init', status: 'succeeded' });
    const run = await engine.waitForRun(result.runs[0]?.runId ?? '', patienceMs);
    expect(run.status).toBe('succeeded');
    const alone = await engine.trigger({ job, runs: [] });
    expect(alone.runs).toEqual([]);
    expect(alone.job).toBeDefined();
    const keyed = { ...job, dedupeKey: 'k' };
    await expect(engine.trigger({ job: keyed, runs: [] })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    });
  });
});
