import { describe, expect, test } from 'vitest';
import { makeLogger } from '../../src/base/log.ts';
import { LogRing } from '../../src/base/log-ring.ts';

const line = { timestamp: '2026-01-01T00:00:00.000Z', level: 'info', component: 'a' } as const;

describe('the stored log lines', () => {
  test('are the latest, limited by number', () => {
    const ring = new LogRing({ linesMax: 3 });
    for (let at = 1; at <= 10; at += 1) ring.add({ ...line, message: `m${at}`, fields: {} });
    expect(ring.read({ limit: 100 }).map(({ message }) => message)).toEqual(['m8', 'm9', 'm10']);
    expect(ring.last).toBe(10);
  });

  test('are the latest, limited by bytes', () => {
    const ring = new LogRing({ bytesMax: 1000 });
    for (let at = 0; at < 100; at += 1) ring.add({ ...line, message: 'x'.repeat(100), fields: {} });
    expect(ring.read({ limit: 100 }).length).toBeLessThanOrEqual(5);
    ring.add({ ...line, message: 'x'.repeat(10_000), fields: {} });
    expect(ring.read({ limit: 100 })).toEqual([]);
  });

  test('have no secrets in any field', () => {
    const ring = new LogRing();
    ring.add({
      ...line,
      message: 'asked with Bearer abcdefghijklmnop',
      fields: {
        token: 'hidden-1',
        nested: { api_key: 'hidden-2', list: ['postgres://ann:hidden-3@db/x'] },
        note: 'ghp_hidden4hidden4hidden4hidden4',
      },
    });
    const text = JSON.stringify(ring.read({ limit: 1 }));
    expect(text).not.toMatch(/hidden|abcdefghijklmnop/);
    expect(text).toContain('[redacted]');
  });

  test("drop values that JSON can't hold", () => {
    const ring = new LogRing();
    const circle: Record<string, unknown> = { big: 1n };
    circle['self'] = circle;
    ring.add({ ...line, message: 'm', fields: { circle } });
    expect(ring.read({ limit: 1 })).toMatchObject([{ message: 'm', fields: {} }]);
  });
});

test('a log keeps its lines from its level on', () => {
  const log = makeLogger({ level: 'info', format: 'json', destination: { write: () => true } });
  log.debug('no');
  log.child('part').warn('yes', { job_id: 'j' });
  expect(log.ring.read({ limit: 9 })).toMatchObject([
    { seq: 1, level: 'warn', component: 'part', message: 'yes', fields: { job_id: 'j' } },
  ]);
});

test('stored lines are read by level, component, time and position', () => {
  const ring = new LogRing();
  const add = (at: number, level: 'info' | 'error', component: string): void =>
    ring.add({
      timestamp: `2026-01-01T00:00:0${at}.000Z`,
      level,
      component,
      message: '',
      fields: {},
    });
  add(1, 'info', 'a');
  add(2, 'error', 'a');
  add(3, 'error', 'b');
  const seqs = (query: Omit<Parameters<LogRing['read']>[0], 'limit'>, limit = 10): number[] =>
    ring.read({ ...query, limit }).map(({ seq }) => seq);
  expect(seqs({})).toEqual([1, 2, 3]);
  expect(seqs({}, 2)).toEqual([2, 3]);
  expect(seqs({ after: 0 }, 2)).toEqual([1, 2]);
  expect(seqs({ level: 'warn' })).toEqual([2, 3]);
  expect(seqs({ component: 'b' })).toEqual([3]);
  expect(seqs({ since: '2026-01-01T00:00:02.000Z' })).toEqual([2, 3]);
  expect(seqs({ after: 3 })).toEqual([]);
});
