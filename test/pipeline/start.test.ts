/** Starting pipelines, alone and beside a job, for later and once for each key. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';

const look = [{ id: 'look', uses: 'echo.poll' }];
const sleep = [{ id: 'sleep', uses: 'sleeper.poll' }];

const pipelines = [
  { name: 'plain', steps: look },
  { name: 'lasting', steps: sleep },
  { name: 'one-by-one', concurrency: 1, steps: sleep },
  { name: 'skipped', steps: [{ ...look[0], if: 'payload.go' }] },
  { name: 'asked', execution_mode: 'synchronous', timeout: '20s', steps: look },
  { name: 'beside', on: 'teller.poll', steps: look },
  { name: 'beside-too', on: 'teller.poll', steps: look },
  { name: 'alone', on: 'echo.nothing', steps: look },
];

describe.each(databases)('on %s', (database) => {
  let api: TestApi;

  beforeAll(async () => {
    api = await startApi({
      database,
      pipelines,
      api: { max_sync_timeout: '60s' },
      service: { max_workers: 8 },
    });
  });

  afterAll(async () => {
    await api.close();
  });

  const start = (path: string, body = '{}') => api.ask(`/pipeline/${path}`, { body });
  const trigger = (path: string, body = '{}') => api.ask(`/trigger/${path}`, { body });
  const show = async (runId: unknown) => (await api.ask(`/runs/${String(runId)}`)).body;
  const countRuns = async (pipeline: string): Promise<number> =>
    (await api.server.instance.engine.ledger.runs.list({ pipeline, limit: 99 })).length;

  describe('a pipeline', () => {
    test('for later waits for its time, says so, and can be cancelled', async () => {
      const { status, body } = await start('plain?delay=1h');
      expect(status).toBe(202);
      expect(body).toMatchObject({ pipeline: 'plain', status: 'queued' });
      const shown = await show(body['run_id']);
      expect(shown).toMatchObject({
        status: 'queued',
        started_at: null,
        steps: [],
        waiting: [{ why: 'it starts at a later time', until: shown['due_at'] }],
      });
      expect(Date.parse(String(shown['due_at']))).toBeGreaterThan(Date.now() + 50 * 60_000);
      const listed = (await api.ask('/runs?status=queued')).body['runs'];
      expect(JSON.stringify(listed)).toContain(String(shown['due_at']));
      await api.ask(`/runs/${String(body['run_id'])}/cancel`, { body: '{}' });
      expect(await show(body['run_id'])).toMatchObject({ status: 'cancelled', due_at: null });
    });

    test('begins when its time has come', async () => {
      const at = new Date(Date.now() + 300).toISOString();
      const { body } = await start(`plain?run_at=${at}`);
      const { engine } = api.server.instance;
      const run = await engine.waitForRun(String(body['run_id']), 15_000);
      expect(run.status).toBe('succeeded');
      expect(Date.parse(run.startedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(at));
    });

    test('for later holds no caller that did not ask to wait', async () => {
      expect(await start('asked?delay=1h')).toMatchObject({
        status: 202,
        body: { status: 'queued' },
      });
      const waited = await start('asked?delay=200ms&wait=20s');
      expect(waited).toMatchObject({ status: 200, body: { status: 'succeeded' } });
    });

    test('is reported as it is: running, queued, or over', async () => {
      expect((await start('lasting')).body).toMatchObject({ status: 'running' });
      expect((await start('one-by-one')).body).toMatchObject({ status: 'queued' });
      const over = await start('skipped', '{"payload":{"go":false}}');
      expect(over).toMatchObject({ status: 200, body: { status: 'succeeded' } });
    });

    test('with a key that is running or done is not started again', async () => {
      const first = await start('lasting?dedupe_key=a&dedupe_ttl=1h');
      expect(first).toMatchObject({ status: 202, body: { status: 'running' } });
      expect(first.body).not.toHaveProperty('duplicate');
      const before = await countRuns('lasting');
      const again = await start('lasting?dedupe_key=a');
      const runId = first.body['run_id'];
      expect(again).toMatchObject({ status: 202, body: { run_id: runId, duplicate: true } });
      expect(again.body).toMatchObject({ dedupe_key: 'a', job_id: first.body['job_id'] });
      expect(await countRuns('lasting')).toBe(before);

      const done = await start('plain?dedupe_key=a&wait=20s');
      expect(done).toMatchObject({ status: 200, body: { duplicate: false } });
      const repeated = await start('plain?dedupe_key=a');
      const answer = { run_id: done.body['run_id'], duplicate: true, status: 'succeeded' };
      expect(repeated).toMatchObject({ status: 200, body: answer });
      const waited = await start('plain?dedupe_key=a&wait=20s');
      expect(waited.body).toMatchObject({ ...answer, tree: [{ step: 'look' }] });
    });

    test('is asked for in the words of a job, and refused as one', async () => {
      for (const path of ['/pipeline/plain', '/plugin/echo/poll', '/trigger/teller/poll']) {
        for (const wrong of [
          'delay=1h&run_at=2040-01-01T00:00:00Z',
          'delay=soon',
          'run_at=tomorrow',
          'dedupe_key=',
          'dedupe_ttl=forever',
        ]) {
          const plan = await api.ask(`${path}?${wrong}&dry_run=true`, { body: '{}' });
          expect([wrong, plan.status]).toEqual([wrong, 400]);
          const { status, body } = await api.ask(`${path}?${wrong}`, { body: '{}' });
          expect([wrong, status, body['code']]).toEqual([wrong, 400, 'INPUT_INVALID']);
        }
        const long = await api.ask(`${path}?dedupe_key=${'k'.repeat(5000)}`, { body: '{}' });
        expect(long.status).toBe(413);
      }
    });
  });

  describe('a trigger', () => {
    test('waits for the job and all runs, if asked', async () => {
      const { status, body } = await trigger('teller/poll?wait=20s');
      expect(status).toBe(200);
      expect(body).toMatchObject({
        status: 'succeeded',
        job: { status: 'succeeded', result: { result: 'told' }, timeout_exceeded: false },
        runs: [
          { pipeline: 'beside', status: 'succeeded', tree: [{ step: 'look' }] },
          { pipeline: 'beside-too', status: 'succeeded' },
        ],
      });
      expect(body['job_id']).toBe((body['job'] as { job_id: string }).job_id);
    });

    test('for later leaves all of it for later', async () => {
      const { status, body } = await trigger('teller/poll?delay=1h');
      expect(status).toBe(202);
      expect(body).toMatchObject({ runs: [{ status: 'queued' }, { status: 'queued' }] });
      const job = (await api.ask(`/job/${String(body['job_id'])}`)).body;
      expect(Date.parse(String(job['ready_at']))).toBeGreaterThan(Date.now() + 50 * 60_000);
      const [run] = body['runs'] as { run_id: string }[];
      expect((await show(run?.run_id))['due_at']).not.toBeNull();
    });

    test('gives the same baggage to all of it', async () => {
      const context = encodeURIComponent('{"who":"ann"}');
      const { body } = await trigger(`teller/poll?wait=20s&context=${context}`);
      const { ledger } = api.server.instance.engine;
      const job = await ledger.jobs.find(String(body['job_id']));
      expect(job?.eventContextId).not.toBeNull();
      const [one, two] = await ledger.runs.list({ limit: 2 });
      expect([one?.eventContextId, two?.eventContextId]).not.toContain(null);
    });

    test('with a key starts each of its targets once', async () => {
      const first = await trigger('teller/poll?dedupe_key=t&wait=20s');
      expect(first.status).toBe(200);
      const before = await Promise.all(['beside', 'beside-too'].map(countRuns));
      const again = await trigger('teller/poll?dedupe_key=t');
      const named = (first.body['runs'] as { run_id: string }[]).map(({ run_id }) => ({
        run_id,
        duplicate: true,
      }));
      expect(again).toMatchObject({
        status: 200,
        body: { job_id: first.body['job_id'], job: { duplicate: true }, runs: named },
      });
      expect(await Promise.all(['beside', 'beside-too'].map(countRuns))).toEqual(before);
    });

    test('that is asked twice at once starts each of its targets once', async () => {
      const before = await Promise.all(['beside', 'beside-too'].map(countRuns));
      const responses = await Promise.all(
        Array.from({ length: 8 }, () => trigger('teller/poll?dedupe_key=at-once')),
      );
      expect(new Set(responses.map(({ body }) => body['job_id'])).size).toBe(1);
      expect(await Promise.all(['beside', 'beside-too'].map(countRuns))).toEqual(
        before.map((count) => count + 1),
      );
    });

    test('that is refused in one part starts nothing', async () => {
      const { ledger } = api.server.instance.engine;
      const before = await ledger.jobs.count({ plugin: 'teller', limit: 1000 });
      const { status } = await trigger('teller/poll', JSON.stringify({ payload: { a: '\u0000' } }));
      expect(status).toBe(400);
      expect(await ledger.jobs.count({ plugin: 'teller', limit: 1000 })).toBe(before);
    });

    test('without a job is reported by its runs', async () => {
      const { status, body } = await trigger('echo/nothing?dedupe_key=n');
      expect(status).toBe(202);
      expect(body).toMatchObject({ job: null, status: 'running' });
      const [run] = body['runs'] as { run_id: string; job_id: string }[];
      expect(body['job_id']).toBe(run?.job_id);
      const { engine } = api.server.instance;
      await engine.waitForRun(run?.run_id ?? '', 15_000);
      const again = await eventually('it is done', () => trigger('echo/nothing?dedupe_key=n'));
      expect(again).toMatchObject({
        status: 200,
        body: { status: 'succeeded', runs: [{ run_id: run?.run_id, duplicate: true }] },
      });
    });
  });
});
