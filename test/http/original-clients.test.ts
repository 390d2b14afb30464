/** Requests of the original's clients, and the fields that they read in responses. */
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';

const work = (id: string) => ({ id, uses: 'echo.poll' });
const both = { split: [work('a'), work('b')] };

let api: TestApi;

beforeAll(async () => {
  api = await startApi({
    pipelines: [
      { name: 'one', steps: [work('a')] },
      { name: 'several', steps: [both] },
      { name: 'each', steps: [{ id: 'e', foreach: '{payload.list}', steps: [work('a')] }] },
      { name: 'later', steps: [{ id: 'w', wait: '1h' }, work('a')] },
      {
        name: 'none',
        steps: [{ ...work('a'), if: { path: 'payload.never', op: 'exists' } }],
      },
      { name: 'called', steps: [{ id: 'c', call: 'several' }] },
      { name: 'sync', execution_mode: 'synchronous', steps: [both] },
    ],
  });
});

afterAll(() => api.close());

describe('POST /pipeline names an id', () => {
  const started = ['one', 'several', 'each', 'later', 'none', 'called', 'sync'];
  test.each(started)('for %s, under which its outcome is found', async (name) => {
    const { body, headers } = await api.ask(`/pipeline/${name}`, {
      body: '{"payload":{"list":[1,2]}}',
    });
    const { run_id: runId, job_id: jobId } = body as { run_id: string; job_id: string | null };
    expect((await api.ask(`/runs/${runId}`)).body).toMatchObject({ run_id: runId, pipeline: name });
    expect(headers.location ?? `/runs/${runId}`).toBe(`/runs/${runId}`);
    if (jobId !== null) expect((await api.ask(`/job/${jobId}`)).status).toBe(200);
    expect(jobId !== null).toBe(['one', 'sync'].includes(name));
    const asJob = await api.ask(`/job/${runId}`);
    expect(asJob).toMatchObject({ status: 404, body: { code: 'JOB_NOT_FOUND' } });
    expect(asJob.body['hint']).toContain(`/runs/${runId}`);
  });

  test('for a run that replaces another one', async () => {
    const body = '{"payload":{}}';
    const first = await api.ask('/pipeline/several?dedupe_key=same', { body });
    const again = await api.ask('/pipeline/several?dedupe_key=same', { body });
    expect(again.body).toMatchObject({ run_id: first.body['run_id'], duplicate: true });
  });
});

describe('a body without the type of JSON', () => {
  const types = [
    'application/x-www-form-urlencoded',
    'text/plain',
    'text/plain; charset=utf-8',
    'application/octet-stream',
    'nonsense',
  ];
  test.each(types)('is read as JSON: %s', async (type) => {
    const reply = await api.ask('/plugin/echo/poll', {
      body: '{"payload":{"n":1}}',
      headers: { 'content-type': type },
    });
    expect(reply.status).toBe(202);
    const { body } = await api.ask(`/job/${String(reply.body['job_id'])}`);
    expect(body['payload']).toEqual({ n: 1 });
  });

  test.each([
    ['a=1&b=2', 'application/x-www-form-urlencoded'],
    ['hello', 'text/plain'],
    ['{}', 'text/plain; charset=utf-16'],
    ['--x--', 'multipart/form-data; boundary=x'],
  ])('is refused as no JSON when it is none: %s', async (body, type) => {
    const reply = await api.ask('/plugin/echo/poll', { body, headers: { 'content-type': type } });
    expect(reply).toMatchObject({ status: 415, body: { code: 'MEDIA_TYPE_UNSUPPORTED' } });
  });

  test('gives a page of another site no rights: only a header does, and no cookie is ever set', async () => {
    const body = '{"payload":{}}';
    const forged = {
      'content-type': 'text/plain',
      origin: 'https://evil.example',
      cookie: `token=${OWNER}; authorization=Bearer ${OWNER}`,
    };
    const before = (await api.ask('/jobs')).body['total'];
    for (const path of ['/plugin/echo/poll', `/plugin/echo/poll?token=${OWNER}`, '/pipeline/one']) {
      const reply = await api.ask(path, { body, token: undefined, headers: forged });
      expect([path, reply.status]).toEqual([path, expect.toBeOneOf([400, 401])]);
    }
    expect((await api.ask('/jobs')).body['total']).toBe(before);
    for (const path of ['/ui', '/ui/', '/', '/jobs', '/healthz', '/plugins']) {
      expect((await api.ask(path)).headers).not.toHaveProperty('set-cookie');
    }
    const preflight = await api.ask('/plugin/echo/poll', {
      method: 'OPTIONS',
      token: undefined,
      headers: {
        origin: 'https://evil.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    });
    expect(preflight.status).toBe(403);
  });
});

test('an endpoint of webhooks.order: compat hands on what is in payload', async () => {
  const key = '0123456789abcdef0123';
  const own = await startApi({
    webhooks: {
      listen: '127.0.0.1:0',
      order: 'compat',
      endpoints: [
        {
          name: 'github',
          path: '/hook/a',
          plugin: 'echo',
          command: 'poll',
          secret_ref: 'gh',
          signature_header: 'X-Hub-Signature-256',
        },
      ],
    },
    tokens: [{ name: 'gh', key, description: 'for GitHub' }],
  });
  try {
    const body = '{"payload":{"ref":1}}';
    const mac = createHmac('sha256', key).update(body).digest('hex');
    const headers = { 'x-hub-signature-256': `sha256=${mac}` };
    const { status, body: said } = await own.deliver('/hook/a', { body, headers });
    expect(status).toBe(202);
    const job = await own.ask(`/job/${String(said['job_id'])}`);
    expect(job.body['payload']).toEqual({ ref: 1 });
  } finally {
    await own.close();
  }
});

test('GET /job-logs takes the filters of the original', async () => {
  const made = await api.ask('/plugin/echo/poll?wait=true', { body: '{"payload":{}}' });
  const id = String(made.body['job_id']);
  const list = async (query: string): Promise<Record<string, unknown>[]> => {
    const { status, body } = await api.ask(`/job-logs?job_id=${id}&${query}`);
    expect(status).toBe(200);
    return body['logs'] as Record<string, unknown>[];
  };
  const all = 'command=poll&submitted_by=api&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z';
  const [found] = await list(`${all}&query=STATUS`);
  expect(found).toMatchObject({ job_id: id, result: { status: 'ok' } });
  expect(await list(`${all}&include_result=false`)).toMatchObject([{ job_id: id, result: null }]);
  const others = [
    'command=handle',
    'submitted_by=scheduler',
    'from=2100-01-01T00:00:00Z',
    'to=2020-01-01T00:00:00Z',
    'query=nowhere-to-be-found',
  ];
  for (const other of others) expect([other, await list(other)]).toEqual([other, []]);
  expect((await api.ask('/job-logs?from=yesterday')).status).toBe(400);
});
