/** Pipelines over HTTP: started by name, with a response at once or at the end. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';

const pipelines = [
  { name: 'plain', steps: [{ id: 'look', uses: 'echo.poll' }] },
  {
    name: 'asked',
    execution_mode: 'synchronous',
    timeout: '20s',
    steps: [
      { id: 'look', uses: 'echo.poll' },
      { id: 'tell', uses: 'teller.poll' },
    ],
  },
  {
    name: 'slow',
    execution_mode: 'synchronous',
    timeout: '100ms',
    steps: [{ id: 'sleep', uses: 'sleeper.poll' }],
  },
  {
    name: 'endless',
    execution_mode: 'synchronous',
    timeout: '1h',
    steps: [{ id: 'sleep', uses: 'sleeper.poll' }],
  },
  {
    name: 'strict',
    steps: [{ id: 'handle', uses: 'echo.handle' }],
  },
];

const triggered = [
  { name: 'beside', on: 'teller.poll', steps: [{ id: 'look', uses: 'echo.poll' }] },
  {
    name: 'after',
    on: 'echo.poll',
    execution_mode: 'synchronous',
    timeout: '20s',
    steps: [{ id: 'tell', uses: 'teller.poll' }],
  },
  {
    name: 'alone',
    on: 'echo.nothing',
    execution_mode: 'synchronous',
    timeout: '20s',
    steps: [{ id: 'look', uses: 'echo.poll' }],
  },
];

const denied = 'denied-token-0123456789abcdef';

describe.each(databases)('on %s', (database) => {
  let api: TestApi;

  beforeAll(async () => {
    const tokens = [
      { name: 'owner', token: OWNER, scopes: ['*'] },
      { name: 'denied', token: denied, scopes: ['plugin:rw', 'sleeper:deny:poll'] },
    ];
    api = await startApi({
      database,
      pipelines: [...pipelines, ...triggered],
      api: { auth: { tokens }, max_concurrent_sync: 1, max_sync_timeout: '60s' },
      service: { max_workers: 8 },
    });
  });

  afterAll(async () => {
    await api.close();
  });

  const start = (name: string, body = '{}') => api.ask(`/pipeline/${name}`, { body });
  const countRuns = async (pipeline: string): Promise<number> =>
    (await api.server.instance.engine.ledger.runs.list({ pipeline, limit: 99 })).length;

  test('an ordinary pipeline is accepted, and runs', async () => {
    const { status, body } = await start('plain', '{"payload":{"a":1}}');
    expect(status).toBe(202);
    expect(body).toMatchObject({ pipeline: 'plain', status: 'running' });
    const { engine } = api.server.instance;
    const run = await engine.waitForRun(String(body['run_id']), 15_000);
    expect(run).toMatchObject({ status: 'succeeded', payload: '{"a":1}', actor: 'token:owner' });
    expect(run.rootJobId).toBe(body['job_id']);
  });

  test('a synchronous pipeline returns all its steps', async () => {
    const { status, body } = await start('asked');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      status: 'succeeded',
      timeout_exceeded: false,
      complete: true,
      result: { n: 1 },
      tree: [
        {
          step: 'look',
          status: 'succeeded',
          plugin: 'echo',
          command: 'poll',
          result: { status: 'ok', result: 'done' },
          output: { result: 'done' },
        },
        { step: 'tell', status: 'succeeded', plugin: 'teller', output: { n: 1 } },
      ],
    });
    expect(typeof body['duration_ms']).toBe('number');
  });

  test('a caller gets the result at the end only if it asks for it', async () => {
    expect((await start('asked?async=true')).status).toBe(202);
    const { status, body } = await start('plain?wait=20s');
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'succeeded', result: { result: 'done' } });
  });

  test('a run continues when the wait is over, and the caller knows its id', async () => {
    const { status, body } = await start('slow');
    expect(status).toBe(202);
    const { job_id: jobId, run_id: runId } = body;
    expect(body).toMatchObject({ status: 'running', timeout_exceeded: true });
    expect(body['message']).toBe(
      `Pipeline still running after timeout. Check /job/${String(jobId)} or /runs/${String(runId)}`,
    );
    const run = await api.server.instance.engine.waitForRun(String(body['run_id']), 0);
    expect(run.status).toBe('running');
  });

  test('a caller is refused before anything is accepted if too many wait', async () => {
    const before = await countRuns('endless');
    const socket = await hold(api, 'endless');
    await eventually('it is under way', async () => (await countRuns('endless')) === before + 1);
    const { status, body, headers } = await start('endless');
    expect(status).toBe(503);
    expect(body).toMatchObject({ code: 'BUSY' });
    expect(headers['retry-after']).toBe('1');
    expect(await countRuns('endless')).toBe(before + 1);

    // The slot of a caller that disconnects is free at once, long before the end of the wait.
    socket.destroy();
    await eventually('there is room again', async () => (await start('asked')).status === 200);
  });

  test('the same key starts one run', async () => {
    const headers = { 'idempotency-key': `one-${database}` };
    const first = await api.ask('/pipeline/plain', { body: '{}', headers });
    const again = await api.ask('/pipeline/plain', { body: '{}', headers });
    expect(again.body['run_id']).toBe(first.body['run_id']);
    expect(again.headers['idempotency-replayed']).toBe('true');
  });

  test('a trigger starts the job and the pipelines of its name', async () => {
    const both = await api.ask('/trigger/teller/poll', { body: '{"payload":{"a":1}}' });
    expect(both).toMatchObject({
      status: 202,
      body: { status: 'queued', runs: [{ pipeline: 'beside', status: 'running' }] },
    });
    const { ledger } = api.server.instance.engine;
    expect(await ledger.jobs.find(String(both.body['job_id']))).toMatchObject({ plugin: 'teller' });
    const [run] = await ledger.runs.list({ pipeline: 'beside', limit: 1 });
    expect(run?.payload).toBe('{"a":1}');

    const alone = await api.ask('/trigger/echo/nothing', { body: '{}' });
    expect(alone).toMatchObject({
      status: 200,
      body: { job: null, status: 'succeeded', runs: [{ tree: [{ step: 'look' }] }] },
    });
    const [leaf] = alone.body['tree'] as { job_id: string }[];
    expect(alone.body['job_id']).toBe(leaf?.job_id);
    expect((await api.ask('/trigger/echo/naught', { body: '{}' })).status).toBe(404);

    const headers = { 'idempotency-key': `trigger-${database}` };
    await api.ask('/trigger/teller/poll', { body: '{}', headers });
    const again = await api.ask('/trigger/teller/poll', { body: '{}', headers });
    expect(again.headers['idempotency-replayed']).toBe('true');
    expect(await countRuns('beside')).toBe(2);
  });

  test('a trigger of a synchronous pipeline waits for its own job too, and sums up', async () => {
    const { status, body } = await api.ask('/trigger/echo/poll', { body: '{}' });
    expect(status).toBe(200);
    const answer = { command: 'poll', status: 'succeeded', result: { status: 'ok' } };
    expect(body).toMatchObject({
      ...answer,
      plugin: 'echo',
      timeout_exceeded: false,
      job: { status: 'succeeded' },
      tree: [
        { ...answer, plugin: 'echo' },
        { ...answer, plugin: 'teller' },
      ],
    });
    expect(typeof body['duration_ms']).toBe('number');
    const [own, step] = body['tree'] as { job_id: string }[];
    expect(body['job_id']).toBe(own?.job_id);
    expect(step?.job_id).not.toBe(own?.job_id);
    const atOnce = await api.ask('/trigger/echo/poll?async=true', { body: '{}' });
    expect(atOnce).toMatchObject({ status: 202, body: { job_id: expect.any(String) as string } });
    expect(atOnce.body).not.toHaveProperty('tree');
  });

  test("a pipeline that can't be started is refused with the reason", async () => {
    expect(await start('plian')).toMatchObject({
      status: 404,
      body: { code: 'PIPELINE_NOT_FOUND' },
    });
    const wrong = await start('strict', '{"message": 7}');
    expect(wrong).toMatchObject({ status: 400, body: { code: 'INPUT_INVALID' } });
    expect(await countRuns('strict')).toBe(0);
    const forbidden = await api.ask('/pipeline/slow', { body: '{}', token: denied });
    expect(forbidden).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
    const plan = await api.ask('/pipeline/plain?dry_run=true', { body: '{}' });
    expect(plan).toMatchObject({ status: 200, body: { dry_run: true } });
  });
});

/** Sends a request and keeps the connection open. */
async function hold(api: TestApi, pipeline: string) {
  const socket = connect(api.port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  const head = [
    `POST /pipeline/${pipeline} HTTP/1.1`,
    'host: localhost',
    `authorization: Bearer ${OWNER}`,
    'content-type: application/json',
    'content-length: 2',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n{}`);
  return socket;
}
