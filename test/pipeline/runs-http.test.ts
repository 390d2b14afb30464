/** Runs over HTTP: requests, scopes and responses. */
import { expect, onTestFinished, test } from 'vitest';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

const READER = 'reader-token-0123456789abcdef';

const pipelines = [
  {
    name: 'asks',
    steps: [
      { id: 'ok', approve: 'May it?' },
      { id: 'then', uses: 'echo.poll' },
    ],
  },
  { name: 'outer', steps: [{ id: 'inner', call: 'asks' }] },
  { name: 'slow', steps: [{ id: 'sleep', uses: 'sleeper.poll' }] },
];

async function open(): Promise<TestApi> {
  const tokens = [
    { name: 'owner', token: 'owner-token-0123456789abcdef', scopes: ['*'] },
    { name: 'reader', token: READER, scopes: ['runs:ro'] },
  ];
  const api = await startApi({ pipelines, api: { auth: { tokens } } });
  onTestFinished(() => api.close());
  return api;
}

async function begin(api: TestApi, pipeline: string): Promise<string> {
  const { body } = await api.ask(`/pipeline/${pipeline}?async=true`, { body: '{}' });
  return String(body['run_id']);
}

function ended(api: TestApi, id: string): Promise<Reply> {
  return eventually('the run ends', async () => {
    const reply = await api.ask(`/runs/${id}`);
    return reply.body['completed_at'] === null ? undefined : reply;
  });
}

test('runs that wait for a person are found, with their questions', async () => {
  const api = await open();
  const waiting = async () =>
    (await api.ask('/runs?awaiting_approval=true', { token: READER })).body['runs'];
  const id = await begin(api, 'asks');
  const inner = await begin(api, 'outer');
  const done = await begin(api, 'asks');
  await api.ask(`/runs/${done}/steps/ok/approve`, { body: '{}' });
  await begin(api, 'slow');
  await ended(api, done);
  expect(await waiting()).toMatchObject([
    { run_id: inner, asks: 'inner/ok: May it?' },
    { run_id: id, asks: 'ok: May it?' },
  ]);
  const { body } = await api.ask('/runs?pipeline=asks');
  expect(body['runs']).toMatchObject([
    { run_id: done, asks: null },
    { run_id: id, asks: 'ok: May it?' },
  ]);
  await api.ask(`/runs/${id}/cancel`, { body: '{}' });
  await api.ask(`/runs/${inner}/steps/inner%2Fok/reject`, { body: '{}' });
  await ended(api, inner);
  expect(await waiting()).toEqual([]);
});

test('a run is listed, shown, rejected, revived, approved and reported', async () => {
  const api = await open();
  const id = await begin(api, 'asks');
  const listed = await api.ask('/runs?pipeline=asks', { token: READER });
  expect(listed.body).toMatchObject({ runs: [{ run_id: id, status: 'running' }] });
  const decide = (run: string, what: string, why: string) =>
    api.ask(`/runs/${run}/steps/ok/${what}`, { body: JSON.stringify({ why }) });
  expect(await decide(id, 'reject', 'not yet')).toMatchObject({
    status: 200,
    body: { approved: false, by: 'token:owner', why: 'not yet' },
  });
  expect((await ended(api, id)).body).toMatchObject({ status: 'halted', halt_reason: 'rejected' });

  const revived = await api.ask(`/runs/${id}/revive`, { body: '{}' });
  expect(revived).toMatchObject({ status: 202, body: { revived_from: id } });
  expect(await api.ask(`/runs/${id}/revive`, { body: '{}' })).toMatchObject({
    status: 409,
    body: { code: 'RUN_REVIVED' },
  });
  const next = String(revived.body['run_id']);
  await eventually('it asks again', async () => {
    const { body } = await api.ask(`/runs/${next}`);
    return JSON.stringify(body['waiting']).includes('approval');
  });
  expect(await decide(next, 'approve', 'now')).toMatchObject({ status: 200 });
  expect((await ended(api, next)).body).toMatchObject({ status: 'succeeded' });
  expect(await decide(next, 'approve', 'again')).toMatchObject({
    status: 409,
    body: { code: 'STEP_NOT_WAITING' },
  });
  const again = await api.ask(`/runs/${next}/retry-from`, { body: '{"step":"then"}' });
  expect(again.status).toBe(202);
  const { body } = await ended(api, String(again.body['run_id']));
  expect(body).toMatchObject({ status: 'succeeded', revived_from: next });
  expect((await api.ask(`/runs/${next}/tree`)).body).toMatchObject({
    nodes: [
      { name: 'ok', kind: 'approve', note: 'approved by token:owner: now' },
      { name: 'then' },
    ],
  });
});

test('a run is cancelled; a dry run says so and does nothing', async () => {
  const api = await open();
  const id = await begin(api, 'slow');
  const dry = await api.ask(`/runs/${id}/cancel?dry_run=true`, { body: '{}' });
  expect(dry.status).toBe(200);
  expect((await api.ask(`/runs/${id}`)).body).toMatchObject({ status: 'running' });
  const cancelled = await api.ask(`/runs/${id}/cancel`, { body: '{}' });
  expect(cancelled).toMatchObject({ status: 200, body: { status: 'cancelled' } });
});

test('a step of a called pipeline is named with its call', async () => {
  const api = await open();
  const id = await begin(api, 'outer');
  const { body } = await api.ask(`/runs/${id}`);
  expect(body).toMatchObject({ waiting: [{ step: 'inner/ok' }] });
  const approved = await api.ask(`/runs/${id}/steps/inner%2Fok/approve`, { body: '{}' });
  expect(approved).toMatchObject({ status: 200, body: { step: 'inner/ok', why: null } });
  expect((await ended(api, id)).body).toMatchObject({ status: 'succeeded' });
});

test('a read-only token changes nothing, and an unknown run is not found', async () => {
  const api = await open();
  const id = await begin(api, 'asks');
  for (const path of ['cancel', 'revive', 'retry-from', 'steps/ok/approve', 'steps/ok/reject']) {
    const body = path === 'retry-from' ? '{"step":"ok"}' : '{}';
    expect((await api.ask(`/runs/${id}/${path}`, { token: READER, body })).status).toBe(403);
  }
  expect(await api.ask(`/runs/${id}/revive`, { body: '{}' })).toMatchObject({
    status: 409,
    body: { code: 'RUN_NOT_HALTED' },
  });
  expect((await api.ask('/runs/01999999-0000-7000-8000-000000000000')).status).toBe(404);
  expect((await api.ask('/runs/zz')).status).toBe(404);
  expect((await api.ask('/runs?status=odd')).status).toBe(400);
});
