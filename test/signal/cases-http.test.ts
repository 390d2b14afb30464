/** The numbered cases of signals and directives, through the API. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  OWNER,
  startApi,
  type RequestOptions,
  type Reply,
  type TestApi,
} from '../support/api-server.ts';

const SENDER = 'sender-token-0123456789abcdef';
const MEMBER = 'member-token-0123456789abcdef';
const ADMIN = 'admin-token-0123456789abcdef';

let api: TestApi;

beforeAll(async () => {
  const tokens = [
    { name: 'owner', token: OWNER, scopes: ['*'] },
    { name: 'sender', token: SENDER, scopes: ['signals:rw'] },
    { name: 'member', token: MEMBER, scopes: ['read:*', 'jobs:rw', 'signals:rw'] },
    { name: 'admin', token: ADMIN, scopes: ['read:*', 'system:rw', 'directives:rw'] },
  ];
  api = await startApi({ api: { auth: { tokens } } });
});

afterAll(() => api.close());

let named = 0;
/** A type of its own for each test. */
function newType(): string {
  named += 1;
  return `case.number${'abcdefghijklmnopqrstuvwxyz'[named] ?? ''}`;
}

function emit(body: object, how: RequestOptions = {}): Promise<Reply> {
  return api.ask('/signals', { token: SENDER, body: JSON.stringify(body), ...how });
}

async function listed(type: string): Promise<Record<string, unknown>[]> {
  const { body } = await api.ask(`/signals?type=${type}`);
  return body['signals'] as Record<string, unknown>[];
}

const of = (type: string, more: object = {}) => ({ type, source: 'shop', data: {}, ...more });

describe('a signal', () => {
  test('S-01 comes back as it was sent', async () => {
    const type = newType();
    const { status, body } = await emit(of(type, { subject: 'order/1', data: { n: 1 } }));
    expect(status).toBe(201);
    const shown = await api.ask(`/signals/${String(body['signal_id'])}`);
    expect(shown.body).toMatchObject({ type, source: 'shop', data: { n: 1 }, subject_id: '1' });
  });

  test('S-02 under the same key is the first one, as it was', async () => {
    const type = newType();
    const first = await emit(of(type, { dedupe_key: type, data: { n: 1 } }));
    const again = await emit(of(type, { dedupe_key: type, data: { n: 2 } }));
    expect(again).toMatchObject({ status: 200, body: { ...first.body, created: false } });
    expect(await listed(type)).toMatchObject([{ data: { n: 1 } }]);
  });

  test('S-03 without a key is another each time', async () => {
    const type = newType();
    await emit(of(type));
    await emit(of(type));
    expect(await listed(type)).toHaveLength(2);
  });

  test("S-04 is one by its source's own id, and another of another source", async () => {
    const type = newType();
    for (const source of ['shop', 'shop', 'store']) {
      await emit({ ...of(type, { source_event_id: type }), source });
    }
    expect((await listed(type)).map(({ source }) => source)).toEqual(['store', 'shop']);
  });

  test('S-06 that was reported before starts nothing unless it is asked for', async () => {
    const type = newType();
    const keyed = of(type, { dedupe_key: type });
    await emit(keyed);
    const plan = await emit({ ...keyed, rerun: true, dry_run: true });
    expect(plan.body['plan']).toEqual([expect.stringContaining('nothing will be recorded')]);
    const again = await emit({ ...keyed, rerun: true });
    expect(again).toMatchObject({ status: 200, body: { created: false } });
    expect(await listed(type)).toHaveLength(1);
  });

  test.each(['nodot', 'Upper.Case', 'with space.x', '.leading', 'trailing.', 'a..b', 'order.v2'])(
    'S-07 of the type %j is refused',
    async (type) => {
      expect(await emit(of(type))).toMatchObject({ status: 400, body: { place: 'type' } });
    },
  );

  test.each([
    ['what is no JSON', '{"type":"a.b","source":"x","data":{"n":NaN}}', 400],
    ['U+0000', '{"type":"a.b","source":"x","data":{"n":"\\u0000"}}', 400],
    ['data that has no names', '{"type":"a.b","source":"x","data":[1]}', 400],
    ['too many levels', `{"type":"a.b","source":"x","data":${nest(70)}}`, 400],
  ])('S-08 with %s is refused', async (_, body, status) => {
    expect((await api.ask('/signals', { token: SENDER, body })).status).toBe(status);
  });

  test('S-09 without a tenant is refused: the caller names the ledger', async () => {
    expect((await emit(of(newType()), { token: undefined })).status).toBe(401);
  });

  test('S-10 may leave blank what it does not know', async () => {
    const type = newType();
    await emit(of(type, { dedupe_key: ' ', source_event_id: '', subject: '' }));
    await emit(of(type, { dedupe_key: ' ', source_event_id: '', subject: '' }));
    expect(await listed(type)).toMatchObject([
      { dedupe_key: null, source_event_id: null, subject_id: null },
      { dedupe_key: null },
    ]);
  });

  test.each(['PUT', 'PATCH', 'DELETE'])('S-11 cannot be changed by %s', async (method) => {
    const { body } = await emit(of(newType()));
    const path = `/signals/${String(body['signal_id'])}`;
    expect((await api.ask(path, { method })).status).toBe(405);
  });

  test('S-12 happened when it says, or now', async () => {
    const type = newType();
    await emit(of(type, { occurred_at: '2020-01-02T03:04:05Z' }));
    await emit(of(type));
    const [now, then] = await listed(type);
    expect(then?.['occurred_at']).toBe('2020-01-02T03:04:05.000Z');
    expect(now?.['occurred_at']).toBe(now?.['inserted_at']);
  });

  test.each([0, 1001])('S-13 is not listed %i at a time', async (limit) => {
    expect((await api.ask(`/signals?limit=${limit}`)).body).toMatchObject({ place: 'limit' });
  });

  test('S-14 with a secret is refused by its location, without its value', async () => {
    const type = newType();
    const data = { user: [{ apiKey: 'hunter2hunter2' }] };
    const refused = await emit(of(type, { data }));
    expect(refused).toMatchObject({ status: 400, body: { place: 'data.user[0].apiKey' } });
    expect(refused.text).not.toContain('hunter2');
    expect(await listed(type)).toEqual([]);
  });

  test('S-16 begins a chain, or is part of one', async () => {
    const type = newType();
    const first = String((await emit(of(type))).body['signal_id']);
    const metadata = { causation_id: first };
    const second = String((await emit(of(type, { metadata }))).body['signal_id']);
    const shown = await api.ask(`/signals/${second}`);
    expect(shown.body).toMatchObject({ correlation_id: first, causation_id: first });
  });
});

describe('permissions', () => {
  const replay = { type: 'nothing.like-this', dry_run: true };

  test('S-26 replay: administrators and above', async () => {
    const ask = (token: string) =>
      api.ask('/signals/replay', { token, body: JSON.stringify(replay) });
    expect((await ask(MEMBER)).status).toBe(403);
    expect((await ask(ADMIN)).status).toBe(200);
  });

  test('D-04 request directives: callers with the scope of its type; their rights are recorded', async () => {
    const body = JSON.stringify({ type: 'system.pause', params: {} });
    expect((await api.ask('/directives', { token: MEMBER, body })).status).toBe(403);
    const { body: made } = await api.ask('/directives', { token: ADMIN, body });
    const shown = await api.ask(`/directives/${String(made['directive_id'])}`);
    expect(shown.body).toMatchObject({ actor: 'token:admin', actor_role: expect.any(String) });
    expect((shown.body['signals'] as { type: string }[]).map(({ type }) => type)).toEqual([
      'directive.requested',
      'directive.started',
      'directive.completed',
    ]);
    await api.ask('/system/resume', { body: '{}' });
  });

  test('directives that wait for approval are listed by that', async () => {
    const { body } = await api.ask('/directives?awaiting_approval=true');
    expect(body['directives']).toEqual([]);
    const others = await api.ask('/directives?awaiting_approval=false');
    expect(others.body['directives']).not.toEqual([]);
  });
});

function nest(levels: number): string {
  return `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
}
