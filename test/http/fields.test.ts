/** Responses of the API are complete unless the client names fields; changes take two flags. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  await api.ask('/plugin/echo/poll?wait=1m', { method: 'POST', body: '{}' });
});
afterAll(() => api.close());

const json = { 'content-type': 'application/json' };

test('a list returns the columns that are named, its counts and its cursor', async () => {
  const { status, body } = await api.ask('/jobs?fields=status,run_id&limit=1');
  expect([status, body]).toEqual([
    200,
    {
      jobs: [{ status: expect.any(String) as string, run_id: null }],
      total: expect.any(Number) as number,
      total_is: 'exact',
      next_cursor: expect.any(String) as string,
    },
  ]);
  const { body: whole } = await api.ask('/jobs?limit=1');
  expect(whole['jobs']).toMatchObject([{ run_id: null, next_retry_at: null }]);
});

test('another response returns the fields that are named, and what is named within them', async () => {
  const { body } = await api.ask('/jobs?fields=job_id');
  const [{ job_id: id }] = body['jobs'] as [{ job_id: string }];
  expect((await api.ask(`/job/${id}?fields=plugin,attempts.cause`)).body).toEqual({
    plugin: 'echo',
    attempts: [{ cause: 'ok' }],
  });
});

test('an unknown name is refused, and so are names where the response is not JSON', async () => {
  expect(await api.ask('/jobs?fields=stauts')).toMatchObject({
    status: 400,
    body: { code: 'INPUT_INVALID', place: 'fields', hint: 'Did you mean status?' },
  });
  expect(await api.ask('/metrics?fields=families')).toMatchObject({
    status: 400,
    body: { code: 'INPUT_INVALID', place: 'fields' },
  });
});

test('a change takes apply, and refuses it together with dry_run', async () => {
  const post = (path: string) => api.ask(path, { method: 'POST', headers: json, body: '{}' });
  expect(await post('/system/pause?apply=true&dry_run=true')).toMatchObject({
    status: 400,
    body: { error: 'dry_run and apply cannot be used together' },
  });
  expect(await post('/system/pause?apply=false')).toMatchObject({
    status: 400,
    body: { error: 'apply must be true' },
  });
  expect((await api.ask('/system/status')).body).toMatchObject({ state: 'running' });
  expect((await post('/system/pause?apply=true')).status).toBe(200);
  expect((await post('/system/resume')).status).toBe(200);
});
