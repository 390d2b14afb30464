import { describe, expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import { databases, makePlace, type TestInstance } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';

const tells = python('ok(json.dumps(request))');

async function requestsOf(instance: TestInstance, jobId: string): Promise<JsonObject[]> {
  return (await instance.attempts(jobId))
    .map(resultOf)
    .map((text) => JSON.parse(text) as JsonObject);
}

function resultOf({ result }: Attempt): string {
  const { result: reply, error } = JSON.parse(result ?? '') as Record<string, string>;
  return reply ?? error ?? '';
}

describe.each(databases)('the request on %s', (database) => {
  test('gives a plugin all it needs and nothing more', async () => {
    const settings = { config: { key: 'k', list: [1, { a: null }] }, timeouts: { poll: '40s' } };
    const place = await makePlace({ database, plugins: { worker: { program: tells, settings } } });
    const instance = await place.start();
    const payload = { text: 'ünï ✓', deep: { n: [1.5, null, true] } };
    const before = Date.now();
    const job = await instance.run('worker', payload, { context: { who: 'ann' } });
    const after = Date.now();
    const [request] = await requestsOf(instance, job.id);
    expect(request).toEqual({
      protocol: 2,
      job_id: job.id,
      command: 'poll',
      instance: 'worker',
      attempt: 1,
      idempotency_key: job.idempotencyKey,
      config: settings.config,
      state: {},
      context: { who: 'ann' },
      payload,
      deadline_at: expect.any(String),
      traceparent: expect.stringContaining(job.id.replaceAll('-', '')),
    });
    const deadline = Date.parse(request?.['deadline_at'] as string);
    expect(deadline).toBeGreaterThanOrEqual(before + 40_000);
    expect(deadline).toBeLessThanOrEqual(after + 40_000);
  });

  test('carries the state that earlier attempts left', async () => {
    const program = python(`
seen = request["state"].get("seen", 0)
ok(json.dumps(request), state_updates={"seen": seen + 1})`);
    const place = await makePlace({ database, plugins: { worker: { program } } });
    const instance = await place.start();
    for (const seen of [undefined, 1, 2]) {
      const job = await instance.run('worker');
      const [request] = await requestsOf(instance, job.id);
      expect(request?.['state']).toEqual(seen === undefined ? {} : { seen });
    }
  });

  test('has the same idempotency key in every attempt at the same work', async () => {
    const program = python('fail(json.dumps(request)) if attempt < 3 else ok(json.dumps(request))');
    const place = await makePlace({ database, plugins: { worker: { program } } });
    const instance = await place.start();
    const jobs = [await instance.run('worker'), await instance.run('worker')];
    const keys: unknown[][] = [];
    for (const { id } of jobs) {
      const requests = await requestsOf(instance, id);
      expect(requests.map((request) => request['attempt'])).toEqual([1, 2, 3]);
      keys.push(requests.map((request) => request['idempotency_key']));
    }
    const [first, second] = keys;
    expect(new Set(first).size).toBe(1);
    expect(new Set(second).size).toBe(1);
    expect(first?.[0]).not.toBe(second?.[0]);
  });
});

describe('an event', () => {
  test('is there for handle alone, with its payload where every payload is', async () => {
    const place = await makePlace({ plugins: { worker: { program: tells } } });
    const instance = await place.start();
    const job = await instance.run('worker', { n: 1 }, { command: 'handle' });
    const [request] = await requestsOf(instance, job.id);
    expect(request).toMatchObject({
      payload: { n: 1 },
      event: { type: 'api.trigger', payload: { n: 1 } },
    });
  });

  test('that was routed says where it comes from', async () => {
    const emits = python('ok(events=[{"type": "made", "payload": {"n": 1}, "dedupe_key": "d"}])');
    const place = await makePlace({
      plugins: { source: { program: emits }, worker: { program: tells } },
      routes: [{ event_type: 'made', to: 'worker' }],
    });
    const instance = await place.start();
    const parent = await instance.run('source');
    const [child] = await instance.ledger.jobs.list({ parentJobId: parent.id, limit: 9 });
    const job = await instance.ended(child?.id ?? '');
    const [request] = await requestsOf(instance, job.id);
    expect(request).toMatchObject({
      command: 'handle',
      payload: { n: 1 },
      event: {
        type: 'made',
        payload: { n: 1 },
        dedupe_key: 'd',
        source: 'source',
        event_id: job.sourceEventId,
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      },
    });
  });
});

test('the environment is the allow-list, and there are no arguments', async () => {
  const program = python('ok(json.dumps({"argv": len(sys.argv), "env": dict(os.environ)}))');
  process.env['TEST_SECRET'] = 'hidden';
  process.env['TEST_PASSED'] = 'seen';
  onTestFinished(() => {
    delete process.env['TEST_SECRET'];
    delete process.env['TEST_PASSED'];
  });
  const place = await makePlace({
    plugins: { worker: { program } },
    service: { plugin_env_passthrough: ['TEST_PASSED'] },
  });
  const instance = await place.start();
  const job = await instance.run('worker');
  const [reply] = await requestsOf(instance, job.id);
  expect(reply?.['argv']).toBe(1);
  const env = reply?.['env'] as Record<string, string>;
  expect(env['TEST_PASSED']).toBe('seen');
  expect(env['PATH']).toContain(process.env['PATH']);
  const usual =
    /^(PATH|HOME|TZ|LANG|LANGUAGE|TMPDIR|LC_[A-Z]+|DUCTILE_ATTEMPT|TEST_PASSED|TRACEPARENT)$/;
  expect(Object.keys(env).filter((name) => !usual.test(name))).toEqual([]);
});

test('an alias runs the same program with its own name, config and state', async () => {
  const program = python(`
ok(json.dumps(request), state_updates={"last": request["config"]["who"]})`);
  const place = await makePlace({
    plugins: { worker: { program, settings: { config: { who: 'original' } } } },
    aliases: { second: { uses: 'worker', config: { who: 'alias' } } },
  });
  const instance = await place.start();
  for (const [name, who] of [
    ['worker', 'original'],
    ['second', 'alias'],
  ] as const) {
    const [request] = await requestsOf(instance, (await instance.run(name)).id);
    expect(request).toMatchObject({ instance: name, config: { who }, state: {} });
    expect(JSON.parse(await instance.ledger.plugins.readState(name))).toEqual({ last: who });
  }
});
