/** Pipelines over HTTP, and the required scopes. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';

const VIEWER = 'viewer-token-0000000';
const CLERK = 'clerk-token-00000000';

let api: TestApi;

beforeAll(async () => {
  const tokens = [
    { name: 'owner', token: OWNER, scopes: ['*'] },
    { name: 'viewer', token: VIEWER, scopes: ['plugin:ro'] },
    { name: 'clerk', token: CLERK, scopes: ['jobs:rw', 'runs:ro'] },
  ];
  const steps = [
    { id: 'look', uses: 'echo.poll' },
    { id: 'ask', approve: 'Go on?' },
  ];
  api = await startApi({ api: { auth: { tokens } }, pipelines: [{ name: 'flow', steps }] });
});

afterAll(async () => {
  await api.close();
});

test('a viewer sees them, draws them and plays them', async () => {
  const token = VIEWER;
  expect((await api.ask('/pipelines', { token })).body).toMatchObject({
    pipelines: [{ name: 'flow' }],
  });
  expect((await api.ask('/pipelines/flow', { token })).body).toMatchObject({
    steps: [{ id: 'look' }, { id: 'ask' }],
  });
  const drawn = await api.ask('/pipelines/flow/graph?format=svg', { token });
  expect(drawn.body['drawing']).toMatch(/^<svg /);
  const body = JSON.stringify({ payload: { n: 1 }, responses: { look: { result: 'seen' } } });
  const played = await api.ask('/pipelines/flow/test', { token, body });
  expect(played.status).toBe(200);
  expect(played.body).toMatchObject({
    status: 'open',
    steps: [{ step: 'look', output: { n: 1, result: 'seen' } }],
    next: [{ step: 'ask', message: 'Go on?' }],
  });
});

test('other callers do not, and an unknown pipeline is not found', async () => {
  expect((await api.ask('/pipelines', { token: undefined })).status).toBe(401);
  expect((await api.ask('/pipelines', { token: CLERK })).status).toBe(403);
  const body = JSON.stringify({ run: '0199a1b2' });
  expect((await api.ask('/pipelines/flow/test', { token: VIEWER, body })).status).toBe(403);
  expect((await api.ask('/pipelines/flow/test', { token: CLERK, body })).body).toMatchObject({
    code: 'RUN_NOT_FOUND',
  });
  expect(await api.ask('/pipelines/flaw/test', { body: '{}' })).toMatchObject({
    status: 404,
    body: { code: 'PIPELINE_NOT_FOUND', hint: 'Did you mean flow?' },
  });
  const wrong = await api.ask('/pipelines/flow/test', { body: '{"responses":{"lock":{}}}' });
  expect(wrong).toMatchObject({ status: 400, body: { place: 'responses.lock' } });
});
