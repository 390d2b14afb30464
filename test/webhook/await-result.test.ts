/** Webhooks whose senders wait for the result of their delivery. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { admitWaiter } from '../../src/job/completion.service.ts';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

const SECRET = 'a-secret-of-the-files';
const endpoint = {
  path: '/run',
  plugin: 'echo',
  command: 'poll',
  secret_ref: 'run_secret',
  signature_header: 'X-Signature',
  respond: 'result',
};

let api: TestApi;
let token: string;
beforeAll(async () => {
  api = await startApi({
    api: { max_concurrent_sync: 2, max_sync_timeout: '30s' },
    service: { max_workers: 8 },
    webhooks: { listen: '127.0.0.1:0', endpoints: [endpoint] },
    tokens: [{ name: 'run_secret', key: SECRET, scopes: [] }],
    pipelines: [{ name: 'care', steps: [{ id: 'look', uses: 'echo.poll' }] }],
  });
  const first = await add({ id: 'signal', signal: 'thing.seen' });
  token = String(first.body['global_token']);
  for (const entry of [
    { id: 'job', plugin: 'echo', command: 'poll', respond: 'result' },
    { id: 'run', pipeline: 'care', respond: 'result' },
    { id: 'slow', plugin: 'sleeper', respond: 'result', respond_within: '1s' },
    { id: 'long', plugin: 'sleeper', respond: 'result', respond_within: '1m' },
  ]) {
    expect(await add(entry)).toMatchObject({ status: 201 });
  }
});
afterAll(() => api.close());

function add(entry: object): Promise<Reply> {
  return api.ask('/webhooks', { body: JSON.stringify({ title: 'T', ...entry }) });
}

function send(id: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
  return api.deliver(`/hooks/${id}`, { token, body: '{"n":1}', headers });
}

test('the response has the result of the job, or of the run', async () => {
  const job = await send('job');
  expect(job).toMatchObject({
    status: 200,
    body: { accepted: true, hook_id: 'job', status: 'succeeded', result: 'done' },
  });
  const { body } = await api.ask(`/job/${String(job.body['job_id'])}`);
  expect(body).toMatchObject({ status: 'succeeded', submitted_by: 'webhook' });
  const run = await send('run');
  expect(run).toMatchObject({ status: 200, body: { status: 'succeeded' } });
  expect(run.body).toHaveProperty('result');
  expect((await api.ask(`/runs/${String(run.body['run_id'])}`)).status).toBe(200);
});

test('an endpoint of the configuration can answer so as well', async () => {
  const mac = createHmac('sha256', SECRET).update('{}').digest('hex');
  const response = await api.deliver('/run', { body: '{}', headers: { 'x-signature': mac } });
  expect(response).toMatchObject({ status: 200, body: { status: 'succeeded', result: 'done' } });
});

test('a job that takes longer returns 202 with its id', async () => {
  const response = await send('slow');
  expect(response).toMatchObject({
    status: 202,
    body: { accepted: true, job_id: expect.any(String) },
  });
  expect(response.body).not.toHaveProperty('status');
});

test('a job that failed is reported by its status, without the reason', async () => {
  const waiting = send('long');
  const job = await newest('long');
  await api.ask(`/job/${job}/cancel`, { body: '{}' });
  const told = await waiting;
  expect(told).toMatchObject({ status: 200, body: { job_id: job, status: 'cancelled' } });
  expect(told.body).not.toHaveProperty('result');
});

test('a duplicate gets the job and the result of the first delivery', async () => {
  const headers = { 'idempotency-key': 'one' };
  const first = await send('job', headers);
  expect(first.body).toHaveProperty('result');
  const again = await send('job', headers);
  expect([again.status, again.body]).toEqual([200, { ...first.body, duplicate: true }]);
});

test('a caller beyond the limit of waiting callers gets 202', async () => {
  const { engine } = api.server.instance;
  const places = [admitWaiter(engine), admitWaiter(engine)];
  expect(admitWaiter(engine)).toBeUndefined();
  expect(await send('job')).toMatchObject({ status: 202, body: { job_id: expect.any(String) } });
  for (const leave of places) leave?.();
  expect((await send('job')).status).toBe(200);
});

test('a caller that disconnects no longer counts as waiting', async () => {
  const { engine } = api.server.instance;
  const port = Number(api.server.surfaces.webhooks?.split(':').at(-1));
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(
    `POST /hooks/long HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n` +
      'content-type: application/json\r\ncontent-length: 11\r\n\r\n{"gone":42}',
  );
  const job = await newest('long');
  const last = admitWaiter(engine);
  expect([typeof last, admitWaiter(engine)]).toEqual(['function', undefined]);
  socket.destroy();
  const free = await eventually('a place is free', () => Promise.resolve(admitWaiter(engine)));
  free();
  last?.();
  await api.ask(`/job/${job}/cancel`, { body: '{}' });
});

test.each([
  [{ signal: 'thing.seen', respond: 'result' }, 'respond'],
  [{ plugin: 'echo', respond_within: '5s' }, 'respond_within'],
  [{ plugin: 'echo', respond: 'result', respond_within: '1h' }, 'respond_within'],
  [{ plugin: 'echo', respond: 'soon' }, 'respond'],
])('%j is refused with its key', async (entry, key) => {
  expect(await add(entry)).toMatchObject({ status: 400, text: expect.stringContaining(key) });
});

/** The job of the last delivery, which runs by now. */
async function newest(id: string): Promise<string> {
  return await eventually('it runs', async () => {
    const { body } = await api.ask('/jobs?plugin=sleeper&status=running&limit=1');
    const [job] = body['jobs'] as { job_id: string; source_event_id: string }[];
    if (job === undefined) return undefined;
    const signal = await api.ask(`/signals/${job.source_event_id}`);
    return signal.body['source'] === `webhook:${id}` ? job.job_id : undefined;
  });
}
