/** The service seen from outside: why, incidents, metrics and traces. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseTraceparent } from '../../src/base/trace.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';
import { startWebServer, type WebServer } from '../support/web-server.ts';

const OUTER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const READER = 'reader-token-0123456789abcdef';
const RUNNER = 'runner-token-0123456789abcdef';
const placed = python('ok(request["traceparent"] + " " + os.environ["TRACEPARENT"])');

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status: { readonly code: number };
}

let api: TestApi;
let collector: WebServer;

beforeAll(async () => {
  collector = await startWebServer((_, response) => void response.end('{}'));
  api = await startApi({
    telemetry: { metrics: 'open', otlp: { endpoint: collector.url, headers: { 'x-key': 'k' } } },
    webhooks: { listen: '127.0.0.1:0' },
    pipelines: [
      { name: 'once', steps: [{ id: 'only', uses: 'placed.poll' }] },
      { name: 'rests', steps: [{ uses: 'placed.poll' }, { id: 'rest', wait: '10ms' }] },
      { name: 'waits', steps: [{ id: 'long', wait: '1h' }] },
      { name: 'big', on: 'box.packed', if: 'payload.size > 3', steps: [{ wait: '1ms' }] },
    ],
    routes: [{ event_type: 'order.paid', to: 'placed.poll' }],
    plugins: { sleeper: { parallelism: 1 } },
    api: {
      auth: {
        tokens: [
          { name: 'owner', token: 'owner-token-0123456789abcdef', scopes: ['*'] },
          { name: 'reader', token: READER, scopes: ['jobs:ro'] },
          { name: 'runner', token: RUNNER, scopes: ['runs:ro'] },
        ],
      },
    },
    prepare: async (directory) => {
      const files = { name: 'placed', entrypoint: 'run', program: placed };
      await writePlugin(join(directory, 'plugins', 'placed'), {
        ...files,
        commands: 'commands: {poll: {}}',
      });
    },
  });
});

afterAll(async () => {
  await api.close();
});

let hookToken = '';

/** The token for deliveries; it is shown with the first webhook alone. */
async function openHook(hook: JsonObject): Promise<string> {
  const { body } = await api.ask('/webhooks', { body: JSON.stringify(hook) });
  if (typeof body['global_token'] === 'string') hookToken = body['global_token'];
  return hookToken;
}

const idOf = ({ body }: Reply): string => String(body['job_id']);

describe('why', () => {
  test('names the holder of a waiting job, with the command that moves it', async () => {
    const holder = idOf(await api.ask('/plugin/sleeper/poll', { body: '{}' }));
    await eventually('it runs', async () => {
      return (await api.ask(`/job/${holder}`)).body['status'] === 'running';
    });
    const waiting = idOf(await api.ask('/plugin/sleeper/poll', { body: '{}' }));
    const { body } = await api.ask(`/why/job/${waiting}`);
    expect(body).toMatchObject({
      kind: 'job',
      id: waiting,
      state: 'queued',
      verdict: 'The plugin sleeper runs 1 job at a time.',
      moves_at: expect.any(String),
      commands: expect.arrayContaining([`ductile job cancel ${holder}`]),
    });
    expect((await api.ask(`/why/any/${waiting}`)).body).toMatchObject({ kind: 'job', id: waiting });
    for (const id of [waiting, holder]) await api.ask(`/job/${id}/cancel`, { method: 'POST' });
  });

  test('names the pipelines that ignored a signal, with the reason', async () => {
    const emit = async (data: object): Promise<unknown> => {
      const entry = { type: 'box.packed', source: 'shop', data };
      const { body } = await api.ask('/signals', { body: JSON.stringify(entry) });
      return (await api.ask(`/why/signal/${String(body['signal_id'])}`)).body;
    };
    const verdict = 'No pipeline for box.packed accepted it.';
    const commands = ['ductile pipeline show big'];
    expect(await emit({ size: 2 })).toMatchObject({
      state: 'unhandled',
      verdict,
      chain: [{ evidence: 'big: payload.size > 3 does not hold' }, {}],
      commands,
    });
    expect(await emit({})).toMatchObject({
      verdict,
      chain: [{ evidence: 'big: payload.size > 3 cannot be evaluated: there is no size' }, {}],
      commands,
    });
    expect(await emit({ size: 4 })).toMatchObject({ state: 'handled' });
  });

  test('refuses unknown objects, unknown kinds, and objects that a token may not see', async () => {
    expect(await api.ask('/why/any/nothing')).toMatchObject({
      status: 404,
      body: { code: 'SUBJECT_NOT_FOUND' },
    });
    expect((await api.ask('/why/thing/x')).status).toBe(404);
    expect((await api.ask('/why/schedule/a%2Fb')).body).toMatchObject({
      code: 'SCHEDULE_NOT_FOUND',
    });
    expect((await api.ask('/why/run/0199', { token: READER })).status).toBe(403);
    // A caller with any read scope may ask; objects that it may not see don't exist for it.
    expect(await api.ask('/why/any/0199aaaa', { token: RUNNER })).toMatchObject({
      status: 404,
      body: { code: 'SUBJECT_NOT_FOUND' },
    });
  });
});

test('why of a webhook reports that deliveries exceeded its rate limit', async () => {
  const hook = { id: 'busy', title: 'Busy', plugin: 'placed', command: 'poll' };
  const settings = { ...hook, rate_limit_per_minute: 1 };
  const token = await openHook(settings);
  const deliver = async (body: string): Promise<number> =>
    (await api.deliver('/hooks/busy', { body, token })).status;
  expect([await deliver('{"n":1}'), await deliver('{"n":2}')]).toEqual([202, 429]);
  expect((await api.ask('/why/webhook/busy')).body).toMatchObject({
    verdict: '1 delivery exceeded its rate limit.',
    commands: expect.arrayContaining([
      'ductile webhook edit busy --rate-limit-per-minute 2',
    ]) as string[],
  });
});

test('why of a delivery is found by its id', async () => {
  const hook = { id: 'bell', title: 'Bell', plugin: 'placed', command: 'poll' };
  const token = await openHook(hook);
  const { body: taken } = await api.deliver('/hooks/bell', { body: '{"n":1}', token });
  const { body: listed } = await api.ask('/webhooks/deliveries?id=bell');
  const [{ delivery_id: id } = { delivery_id: '' }] = listed['deliveries'] as {
    delivery_id: string;
  }[];
  for (const kind of ['any', 'delivery']) {
    expect((await api.ask(`/why/${kind}/${id}`)).body).toMatchObject({
      kind: 'delivery',
      id,
      state: 'accepted',
      commands: expect.arrayContaining([`ductile why ${String(taken['job_id'])}`]) as string[],
    });
  }
  expect((await api.ask('/why/delivery/ffffffff')).body).toMatchObject({
    code: 'DELIVERY_NOT_FOUND',
  });
});

test('incidents can be listed by permitted callers', async () => {
  expect((await api.ask('/incidents')).body).toEqual({ incidents: [], next_cursor: null });
  expect((await api.ask('/incidents/0199a1b2')).body).toMatchObject({ code: 'INCIDENT_NOT_FOUND' });
  expect((await api.ask('/incidents', { token: READER })).status).toBe(403);
});

test('metrics are text for a monitor, JSON on request, and public if configured', async () => {
  await api.ask('/plugin/echo/poll?wait=10s', { body: '{}' });
  const scraped = await api.ask('/metrics', { token: undefined });
  expect(scraped.status).toBe(200);
  expect(scraped.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(scraped.text).toMatch(/^ductile_jobs_total\{plugin="echo",status="succeeded"\} \d+$/m);
  expect(scraped.text).toMatch(/^ductile_queue_jobs\{state="ready"\} \d+$/m);
  for (const line of scraped.text.trimEnd().split('\n')) {
    expect(line).toMatch(/^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[^{}]*\})? [-+\d.eE]+)$/);
  }
  const json = await api.ask('/metrics', { headers: { accept: 'application/json' } });
  expect(json.body).toMatchObject({ families: expect.any(Array) });
  expect((await api.ask('/metrics', { token: READER })).status).toBe(403);
});

async function sent(): Promise<SentSpan[]> {
  interface ExportRequest {
    resourceSpans: { scopeSpans: { spans: SentSpan[] }[] }[];
  }
  return collector.received.flatMap(({ body }) =>
    (JSON.parse(body) as ExportRequest).resourceSpans.flatMap(({ scopeSpans }) =>
      scopeSpans.flatMap(({ spans }) => spans),
    ),
  );
}

function resultOf({ body }: Reply): string[] {
  return String((body['result'] as Record<string, unknown>)['result']).split(' ');
}

describe('traces', () => {
  test('a plugin gets its trace context, and the collector gets the job with its phases', async () => {
    const reply = await api.ask('/plugin/placed/poll?wait=10s', { body: '{}' });
    const [told, environment] = resultOf(reply);
    expect(told).toBe(environment);
    const place = parseTraceparent(told);
    expect(place?.traceId).toBe(idOf(reply).replaceAll('-', ''));
    const spans = await eventually('it was sent', async () => {
      const mine = (await sent()).filter(({ traceId }) => traceId === place?.traceId);
      return mine.length >= 6 && mine;
    });
    const [job, attempt, ...phases] = spans;
    expect(job).toMatchObject({ name: 'placed poll', kind: 1, status: { code: 1 } });
    expect(attempt).toMatchObject({ spanId: place?.spanId, parentSpanId: job?.spanId });
    expect(phases.map(({ name }) => name)).toEqual(['queue', 'spawn', 'run', 'settle']);
    for (const { startTimeUnixNano: start, endTimeUnixNano: end, parentSpanId } of phases) {
      expect(parentSpanId).toBe(attempt?.spanId);
      expect(BigInt(start) <= BigInt(end)).toBe(true);
    }
    expect(collector.received[0]).toMatchObject({
      method: 'POST',
      path: '/v1/traces',
      headers: { 'x-key': 'k', 'content-type': 'application/json' },
    });
  });

  test('a run that ends without a job is sent too, in the trace that it came with', async () => {
    const other = OUTER.replaceAll(/[a-f]/g, '0');
    const headers = { traceparent: other };
    await api.ask('/pipeline/rests?wait=10s', { body: '{}', headers });
    const run = await eventually('the run was sent', async () => {
      return (await sent()).find(({ name }) => name === 'pipeline rests');
    });
    expect(run).toMatchObject({
      traceId: parseTraceparent(other)?.traceId,
      parentSpanId: parseTraceparent(other)?.spanId,
      status: { code: 1 },
    });
  });

  test('a cancelled run is sent too, in the trace that it came with', async () => {
    const other = OUTER.replaceAll(/[a-f]/g, '1');
    const started = await api.ask('/pipeline/waits', {
      body: '{}',
      headers: { traceparent: other },
    });
    const { status } = await api.ask(`/runs/${String(started.body['run_id'])}/cancel`, {
      method: 'POST',
    });
    expect(status).toBe(200);
    const run = await eventually('the run was sent', async () => {
      return (await sent()).find(({ name }) => name === 'pipeline waits');
    });
    expect(run).toMatchObject({
      traceId: parseTraceparent(other)?.traceId,
      parentSpanId: parseTraceparent(other)?.spanId,
      status: { code: 2 },
    });
  });

  test('a caller with a trace finds its work in it: a job, a run, a signal, a delivery', async () => {
    const headers = { traceparent: OUTER };
    const job = await api.ask('/plugin/placed/poll?wait=10s', { body: '{}', headers });
    const outer = parseTraceparent(OUTER);
    expect(parseTraceparent(resultOf(job)[0])?.traceId).toBe(outer?.traceId);
    await api.ask('/pipeline/once?wait=10s', { body: '{}', headers });
    const order = { type: 'order.paid', source: 'shop', data: {} };
    await api.ask('/signals', { body: JSON.stringify(order), headers });
    const hook = { id: 'door', title: 'Door', plugin: 'placed', command: 'poll' };
    const token = await openHook(hook);
    expect((await api.deliver('/hooks/door', { body: '{}', token, headers })).status).toBe(202);
    const spans = await eventually('all were sent', async () => {
      const mine = (await sent()).filter(({ traceId }) => traceId === outer?.traceId);
      return mine.filter(({ name }) => name === 'placed poll').length === 4 && mine;
    });
    const run = await eventually('the run was sent', async () => {
      return (await sent()).find(({ name }) => name === 'pipeline once');
    });
    expect(run.traceId).toBe(outer?.traceId);
    const delivery = spans.find(({ name }) => name === 'webhook door');
    expect(delivery).toMatchObject({ kind: 2, parentSpanId: outer?.spanId });
    const parents = spans
      .filter(({ name }) => name === 'placed poll')
      .map(({ parentSpanId }) => parentSpanId);
    expect(new Set(parents)).toEqual(new Set([outer?.spanId, run.spanId, delivery?.spanId]));
  });
});
