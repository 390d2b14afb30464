/** Signals over HTTP: reported, shown, listed and replayed, with the rights that each needs. */
import { expect, onTestFinished, test } from 'vitest';
import {
  OWNER,
  startApi,
  type ApiSetup,
  type RequestOptions,
  type Reply,
  type TestApi,
} from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

const SENDER = 'sender-token-0123456789abcdef';
const READER = 'reader-token-0123456789abcdef';
const LIMITED = 'limited-token-0123456789abcdef';

async function open(more: Partial<ApiSetup> = {}): Promise<TestApi> {
  const tokens = [
    { name: 'owner', token: OWNER, scopes: ['*'] },
    { name: 'sender', token: SENDER, scopes: ['signals:rw'] },
    { name: 'reader', token: READER, scopes: ['read:*'] },
    { name: 'limited', token: LIMITED, scopes: ['signals:rw', 'echo:deny:poll'] },
  ];
  const pipelines = [
    { name: 'care', on: 'order.paid', steps: [{ id: 'look', uses: 'echo.poll' }] },
  ];
  const api = await startApi({ pipelines, ...more, api: { auth: { tokens } } });
  onTestFinished(() => api.close());
  return api;
}

const paid = { type: 'order.paid', source: 'shop', data: { amount: 12 } };

function post(
  api: TestApi,
  body: object,
  how: RequestOptions = {},
  path = '/signals',
): Promise<Reply> {
  return api.ask(path, { token: SENDER, body: JSON.stringify(body), ...how });
}

test('a signal is created once, and shown with what it caused', async () => {
  const api = await open();
  const keyed = { ...paid, subject: { type: 'order', id: '42' }, dedupe_key: 'k' };
  const first = await post(api, keyed);
  const id = String(first.body['signal_id']);
  expect(first).toMatchObject({ status: 201, body: { created: true } });
  expect(await post(api, { ...keyed, data: {} })).toMatchObject({
    status: 200,
    body: { signal_id: id, created: false },
  });
  const shown = await api.ask(`/signals/${id}`, { token: READER });
  expect(shown.body).toMatchObject({
    signal_id: id,
    type: 'order.paid',
    subject_type: 'order',
    subject_id: '42',
    data: { amount: 12 },
    metadata: { schema_version: 1, actor: 'token:sender' },
    correlation_id: id,
    dedupe_key: 'k',
    runs: [{ pipeline: 'care', submitted_by: 'route' }],
  });
  const listed = await api.ask('/signals?type=order.paid&subject=order/42', { token: READER });
  expect(listed.body).toMatchObject({ signals: [{ signal_id: id }], next_cursor: null });
  expect((await api.ask('/signals/0000')).body).toMatchObject({ code: 'SIGNAL_NOT_FOUND' });
});

test('the same request with the same Idempotency-Key is the same signal', async () => {
  const api = await open();
  const how = { headers: { 'idempotency-key': 'one' } };
  const [first, second] = [await post(api, paid, how), await post(api, paid, how)];
  expect(second).toMatchObject({ status: 201, body: first.body });
  expect(second.headers['idempotency-replayed']).toBe('true');
  expect((await api.ask('/signals?type=order.paid')).body['signals']).toHaveLength(1);
});

test('lists continue page by page, from either end', async () => {
  const api = await open();
  for (const n of [1, 2, 3]) await post(api, { ...paid, type: 'order.seen', data: { n } });
  for (const [order, wanted] of [
    ['newest', [3, 2, 1]],
    ['oldest', [1, 2, 3]],
  ] as const) {
    const seen: unknown[] = [];
    let cursor: unknown = '';
    while (typeof cursor === 'string') {
      const page = cursor === '' ? '' : `&cursor=${cursor}`;
      const path = `/signals?type=order.seen&limit=1&order=${order}${page}`;
      const { body }: Reply = await api.ask(path, { token: READER });
      seen.push(...(body['signals'] as { data: { n: number } }[]).map(({ data }) => data.n));
      cursor = body['next_cursor'];
    }
    expect(seen).toEqual(wanted);
  }
});

test("data that can't be stored is refused before anything is written", async () => {
  const api = await open();
  const bodies: readonly (readonly [object, string])[] = [
    [{ ...paid, data: { user: { password: 'hunter2' } } }, 'data.user.password'],
    [{ ...paid, type: 'Order.Paid' }, 'type'],
    [{ ...paid, type: 'order.paid.v2' }, 'type'],
    [{ ...paid, source: 'ductile' }, 'source'],
    [{ ...paid, source: 'echo' }, 'source'],
    [{ ...paid, occurred_at: 'yesterday' }, 'occurred_at'],
    [{ ...paid, data: [] }, 'data'],
    [{ ...paid, subject: { kind: 'order' } }, 'subject'],
    [{ ...paid, more: 1 }, 'more'],
  ];
  for (const [body, place] of bodies) {
    const reply = await post(api, body);
    expect(reply).toMatchObject({ status: 400, body: { code: 'INPUT_INVALID', place } });
    expect(reply.text).not.toContain('hunter2');
  }
  expect((await api.ask('/signals?source=shop')).body['signals']).toEqual([]);
});

test('data for administrators is hidden from everyone else', async () => {
  const api = await open();
  const hidden = { ...paid, type: 'staff.paid', visibility: 'admin_only' };
  const id = String((await post(api, hidden)).body['signal_id']);
  const json = { accept: 'application/json' };
  const ways = [
    `/signals/${id}`,
    '/signals?type=staff.paid',
    '/events?after=start&type=staff.paid',
  ];
  for (const way of ways) {
    expect((await api.ask(way, { headers: json })).text).toContain(id);
    for (const token of [READER, SENDER]) {
      expect((await api.ask(way, { headers: json, token })).text).not.toContain('"shop"');
    }
  }
  expect((await api.ask(`/signals/${id}`, { token: READER })).status).toBe(404);
  // Nor with the jobs and signals that are beside it in the chain.
  const next = { ...paid, type: 'staff.told', visibility: 'admin_only' };
  const first = String((await post(api, { ...paid, type: 'staff.met' })).body['signal_id']);
  await post(api, { ...next, metadata: { causation_id: first } });
  const met = (token: string) => api.ask(`/signals/${first}`, { token });
  expect((await met(OWNER)).body).toMatchObject({ signals: [{ type: 'staff.told' }] });
  expect((await met(READER)).body).toMatchObject({ signals: [] });
  await post(api, { ...paid, visibility: 'admin_only' });
  const { body } = await api.ask('/jobs?plugin=echo');
  const [job] = body['jobs'] as { job_id: string }[];
  const cause = async (token: string) =>
    (await api.ask(`/job/${job?.job_id ?? ''}`, { token })).body['cause'];
  expect(await cause(OWNER)).toMatchObject({ type: 'order.paid' });
  expect(await cause(READER)).toBeNull();
});

test('data for administrators is hidden in the jobs that it started, too', async () => {
  const steps = ['one', 'two'].map((id) => ({ id, uses: 'echo.handle' }));
  const api = await open({
    pipelines: [{ name: 'care', on: 'order.paid', steps }],
    routes: [{ event_type: 'staff.paid', to: 'echo' }],
  });
  const data = { amount: 987654 };
  await post(api, { ...paid, type: 'staff.paid', data, visibility: 'admin_only' });
  await post(api, { ...paid, data, visibility: 'admin_only' });
  const [run] = (await api.ask('/runs')).body['runs'] as { run_id: string }[];
  const at = `/runs/${run?.run_id ?? ''}`;
  await eventually('it is done', async () => (await api.ask(at)).body['status'] === 'succeeded');
  const { jobs } = (await api.ask('/jobs?limit=10')).body as { jobs: { job_id: string }[] };
  // A route, and two steps of a pipeline.
  expect(jobs).toHaveLength(3);
  for (const way of [at, ...jobs.map(({ job_id: id }) => `/job/${id}`)]) {
    expect((await api.ask(way)).text).toContain('987654');
    const seen = await api.ask(way, { token: READER });
    expect([seen.status, seen.text.includes('987654')]).toEqual([200, false]);
  }
  const played = { run: run?.run_id };
  const play = (token: string) => post(api, played, { token }, '/pipelines/care/test');
  expect((await play(OWNER)).text).toContain('987654');
  expect(await play(READER)).toMatchObject({ status: 403, body: { place: 'run' } });
  await post(api, { ...paid, type: 'staff.paid' });
  const [told] = (await api.ask('/jobs?limit=1')).body['jobs'] as { job_id: string }[];
  const shown = await api.ask(`/job/${told?.job_id ?? ''}`, { token: READER });
  expect(shown.body['payload']).toMatchObject({ payload: { amount: 12 } });
});

test("a read-only token can't report a signal, and a denied command can't be reached by a signal", async () => {
  const api = await open();
  expect((await post(api, paid, { token: READER })).status).toBe(403);
  expect((await post(api, paid, { token: LIMITED })).body).toMatchObject({ code: 'FORBIDDEN' });
  expect((await post(api, { ...paid, type: 'order.lost' }, { token: LIMITED })).status).toBe(201);
  const all = { type: 'order.lost' };
  expect((await post(api, all, {}, '/signals/replay')).status).toBe(403);
  expect((await post(api, all, { token: OWNER }, '/signals/replay')).body).toMatchObject({
    signals: 1,
    jobs: 0,
    unhandled: 1,
  });
});

test('a dry run says what would follow', async () => {
  const api = await open();
  expect((await post(api, { ...paid, dry_run: true })).body).toEqual({
    dry_run: true,
    plan: [
      'A signal order.paid of shop will be recorded. This cannot be undone.',
      'A run of care will start.',
    ],
  });
  const keyed = { ...paid, source_event_id: 'e' };
  const id = String((await post(api, keyed)).body['signal_id']);
  expect((await post(api, { ...keyed, dry_run: true })).body['plan']).toEqual([
    `This is a duplicate of signal ${id}; nothing will be recorded.`,
  ]);
});

test('CloudEvents come in whole or in headers, and go out', async () => {
  const api = await open();
  const event = { specversion: '1.0', id: 'e-1', type: 'order.paid', source: '/shops/1' };
  const whole = { 'content-type': 'application/cloudevents+json' };
  const first = await post(api, { ...event, data: { n: 1 } }, { headers: whole });
  expect(first.status).toBe(201);
  const inHeaders = {
    'ce-specversion': '1.0',
    'ce-id': 'e-1',
    'ce-type': 'order.paid',
    'ce-source': '/shops/1',
  };
  const second = await post(api, { n: 1 }, { headers: inHeaders });
  const again = { ...first.body, created: false, handlers: 0 };
  expect(second).toMatchObject({ status: 200, body: again });
  const accept = { accept: 'application/cloudevents+json' };
  const id = String(first.body['signal_id']);
  const shown = await api.ask(`/signals/${id}`, { headers: accept });
  expect(shown.headers['content-type']).toBe('application/cloudevents+json');
  expect(shown.body).toMatchObject({ ...event, id, data: { n: 1 }, correlationid: id });
  const binary = await api.ask(`/signals/${id}`, { headers: { 'ce-specversion': '1.0' } });
  expect(binary.body).toEqual({ n: 1 });
  expect(binary.headers).toMatchObject({
    'content-type': 'application/json',
    'ce-specversion': '1.0',
    'ce-id': id,
    'ce-type': 'order.paid',
    'ce-source': '/shops/1',
  });
  const wrong = await post(api, { ...event, specversion: '2' }, { headers: whole });
  expect(wrong).toMatchObject({ status: 400, body: { place: 'specversion' } });
});

test('CloudEvents in a batch are recorded in one commit, each with its own result', async () => {
  const api = await open();
  const headers = { 'content-type': 'application/cloudevents-batch+json' };
  const send = (events: readonly object[]) => post(api, events, { headers });
  const eventOf = (id: string, more: object = {}) => ({
    specversion: '1.0',
    id,
    type: 'order.paid',
    source: '/shops/1',
    ...more,
  });
  const count = async () => {
    const { body } = await api.ask('/signals?type=order.paid', { token: READER });
    return (body['signals'] as unknown[]).length;
  };
  const first = await send([eventOf('a'), eventOf('b', { data: { n: 2 } }), eventOf('a')]);
  expect(first.status).toBe(200);
  const told = first.body['signals'] as { signal_id: string; created: boolean }[];
  expect(told.map(({ created }) => created)).toEqual([true, true, false]);
  expect(told[2]?.signal_id).toBe(told[0]?.signal_id);
  expect(await count()).toBe(2);
  const bad = [
    [[eventOf('c'), eventOf('d', { specversion: '2' })], '[1].specversion'],
    [[eventOf('c'), eventOf('d', { type: 'Not a name' })], 'signals[1].type'],
    [[eventOf('c'), eventOf('d', { source: 'echo' })], 'signals[1].source'],
    [[], 'signals'],
    [Array.from({ length: 1001 }, (_, index) => eventOf(`e-${index}`)), 'signals'],
  ] as const;
  for (const [events, place] of bad) {
    const refused = await send(events);
    expect(refused, place).toMatchObject({ status: 400, body: { place } });
  }
  expect((await send(eventOf('c') as never)).status).toBe(400);
  expect(await count()).toBe(2);
  const ours = { signals: [{ type: 'order.paid', source: 'shop', dedupe_key: 'x' }] };
  expect((await post(api, ours, {}, '/signals/batch')).body['signals']).toMatchObject([
    { created: true },
  ]);
  const denied = await post(api, [eventOf('c')], { headers, token: LIMITED });
  expect(denied.status).toBe(403);
});
