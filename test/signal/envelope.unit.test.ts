import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { toSignalDraft, type SignalReport } from '../../src/signal/envelope.ts';
import { findNameFault } from '../../src/signal/signal.ts';
import { findSecret } from '../../src/signal/mask.ts';

const nowMs = Date.parse('2026-11-15T12:00:00.000Z');
const reporter = { id: 'signal-1', actor: 'token:shop', nowMs };

function draftOf(report: Partial<SignalReport>) {
  return toSignalDraft({ type: 'order.paid', source: 'shop', data: {}, ...report }, reporter);
}

describe('names', () => {
  test.each(['order.paid', 'package.install.completed', 'a.b_c.d-e', 'disk1.full'])('%s', (name) =>
    expect(findNameFault(name)).toBeUndefined(),
  );
  test.each(['order', 'Order.paid', 'order paid', '.order', 'order.', 'a..b', '', 'a.b\n', 'ä.b'])(
    'not %j',
    (name) => expect(findNameFault(name)).toMatch(/lowercase/),
  );
  test('hold no versions, and end somewhere', () => {
    expect(findNameFault('order.paid.v2')).toMatch(/version v2/);
    expect(findNameFault('order.v2_1.paid')).toMatch(/version/);
    expect(findNameFault('order.video')).toBeUndefined();
    expect(findNameFault(`a.${'b'.repeat(300)}`)).toMatch(/longer/);
  });
});

describe('secrets', () => {
  const found = (data: JsonObject) => findSecret(data, 'data')?.path;

  test('are found by their names, at any depth and in any spelling', () => {
    expect(found({ user: { password: 'x' } })).toBe('data.user.password');
    expect(found({ list: [1, { accessToken: 'x' }] })).toBe('data.list[1].accessToken');
    expect(found({ 'Set-Cookie': ['a', 'b'] })).toBe('data.Set-Cookie');
    expect(found({ token: 12345 })).toBe('data.token');
  });

  test('are found by their shapes', () => {
    expect(found({ note: `see ghp_${'a'.repeat(36)} there` })).toBe('data.note');
    expect(found({ url: 'postgres://ann:hunter2@db/x' })).toBe('data.url');
  });

  test("aren't words that only sound like them", () => {
    const harmless = {
      next_page_token: 'abc',
      token_count: 12,
      password: null,
      secret: '',
      api_key: '[redacted]',
      credentials: { id: 'cred-1' },
      key: 'value',
    };
    expect(found(harmless)).toBeUndefined();
  });
});

describe('a report', () => {
  const token = `glpat-${'aB3dE5fG7h'.repeat(2)}`;

  test.each<[string, Partial<SignalReport>]>([
    ['subject', { subject: `user/${token}` }],
    ['source', { source: `shop ${token}` }],
    ['dedupe_key', { dedupeKey: token }],
    ['source_event_id', { sourceEventId: `x?access_token=${token}` }],
    ['metadata.correlation_id', { metadata: { correlation_id: `Bearer ${token}` } }],
    ['metadata.causation_id', { metadata: { causation_id: token } }],
    ['metadata.note', { metadata: { note: token } }],
    ['data.db_password', { data: { db_password: 'hunter2' } }],
    ['data.body', { data: { body: '{"pwd":"hunter2"}' } }],
    ['data.key', { data: { key: `-----BEGIN PRIVATE KEY-----` } }],
  ])('with a secret in %s is refused, and the secret is not repeated', (place, report) => {
    let thrown: unknown;
    try {
      draftOf(report);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ code: 'INPUT_INVALID', place });
    expect(String(thrown)).toContain('signals must not hold secrets');
    expect(String(thrown)).not.toMatch(/glpat|hunter2|BEGIN/);
  });

  test('becomes a signal with a correlation of its own', () => {
    expect(draftOf({ subject: 'order/42/x', data: { n: 1 } })).toEqual({
      id: 'signal-1',
      type: 'order.paid',
      source: 'shop',
      subjectType: 'order',
      subjectId: '42/x',
      data: '{"n":1}',
      metadata: '{"schema_version":1,"actor":"token:shop"}',
      hops: 1,
      correlationId: 'signal-1',
    });
  });

  test("places itself in a chain, and can't name another source", () => {
    const metadata = { correlation_id: 'c', causation_id: 'p', trace_id: 't', actor: 'somebody' };
    expect(draftOf({ metadata })).toMatchObject({
      correlationId: 'c',
      isCorrelated: true,
      causationId: 'p',
      metadata: '{"schema_version":1,"trace_id":"t","actor":"token:shop"}',
    });
  });

  test('has the role that its reporter had, and no other', () => {
    const request = { type: 'order.paid', source: 'shop', data: {} };
    const metadata = { actor_role: 'owner', trace_id: 't' };
    const readStored = (role?: string, given = {}): unknown =>
      JSON.parse(
        toSignalDraft({ ...request, metadata: given }, { ...reporter, actorRole: role }).metadata ??
          '',
      );
    const actor = 'token:shop';
    expect(readStored('member')).toEqual({ schema_version: 1, actor, actor_role: 'member' });
    expect(readStored(undefined)).toEqual({ schema_version: 1, actor });
    expect(readStored(undefined, metadata)).toEqual({ schema_version: 1, trace_id: 't', actor });
    expect(readStored('member', metadata)).toMatchObject({ actor_role: 'member' });
  });

  test('does not pretend that something in it was masked, because it could not be replayed', () => {
    const { metadata } = draftOf({ metadata: { redacted: ['data.a'], trace_id: 't' } });
    expect(metadata).toBe('{"schema_version":1,"trace_id":"t","actor":"token:shop"}');
  });

  test('may leave blank what it does not know', () => {
    const draft = draftOf({ subject: ' ', dedupeKey: '', sourceEventId: '' });
    expect(draft).not.toHaveProperty('subjectId');
    expect(draft).not.toHaveProperty('dedupeKey');
    expect(draft).not.toHaveProperty('sourceEventId');
  });

  test('keeps the time when it happened, unless that is to come', () => {
    const occurredAt = '2020-01-01T00:00:00.000Z';
    expect(draftOf({ occurredAt })).toMatchObject({ occurredAt });
    expect(() => draftOf({ occurredAt: '2026-11-17T00:00:00.000Z' })).toThrow(/future/);
  });

  const deep = (levels: number): JsonObject => (levels === 0 ? {} : { inner: deep(levels - 1) });
  const refused: readonly (readonly [string, Partial<SignalReport>, string])[] = [
    ['another name', { type: 'Order' }, 'type'],
    ['no source', { source: ' ' }, 'source'],
    ["the runtime's source", { source: 'ductile' }, 'source'],
    ["a plugin's source", { source: 'plugin:mail' }, 'source'],
    ['a secret in its data', { data: { user: { password: 'x' } } }, 'data.user.password'],
    ['a secret beside it', { metadata: { api_key: 'x' } }, 'metadata.api_key'],
    ['what is no number', { data: { n: Number.NaN } }, 'data'],
    ['U+0000', { data: { text: 'a\u0000b' } }, 'data'],
    ['data that is too deep', { data: deep(100) }, 'data'],
    ['data that is too large', { data: { text: 'x'.repeat(2 ** 20) } }, 'data'],
    ['metadata that is too large', { metadata: { text: 'x'.repeat(2 ** 16) } }, 'metadata'],
    ['a key that is too large', { dedupeKey: 'x'.repeat(2000) }, 'dedupe_key'],
    ['U+0000 in its key', { dedupeKey: 'a\u0000' }, 'dedupe_key'],
    [
      'a correlation that is no text',
      { metadata: { correlation_id: 7 } },
      'metadata.correlation_id',
    ],
  ];
  test.each(refused)('with %s is refused, and says where', (_, report, place) => {
    expect(() => draftOf(report)).toThrow(expect.objectContaining({ place }));
  });

  test('that is refused for a secret does not repeat it', () => {
    expect(() => draftOf({ data: { password: 'hunter2' } })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') as string }),
    );
  });
});
