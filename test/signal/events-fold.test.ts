/** Folded events: the latest of each type with its count, the same for all followers. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

let api: TestApi;

beforeAll(async () => {
  api = await startApi();
});

afterAll(() => api.close());

interface EventSummary {
  readonly type: string;
  readonly count: number;
  readonly data: { readonly n: number };
}

async function emit(n: number): Promise<void> {
  const body = JSON.stringify({ type: 'order.paid', source: 'shop', data: { n } });
  expect((await api.ask('/signals', { body })).status).toBe(201);
}

describe('folded events', () => {
  test('are one for each type, with their number, and continue after their cursor', async () => {
    const begin = await api.ask('/events?fold=true', { headers: { accept: 'application/json' } });
    for (const n of [1, 2, 3]) await emit(n);
    let cursor = String(begin.body['cursor']);
    const reports: EventSummary[] = [];
    await eventually('three were told', async () => {
      const path = `/events?fold=true&type=order.*&after=${cursor}`;
      const { body } = await api.ask(path, { headers: { accept: 'application/json' } });
      cursor = String(body['cursor']);
      reports.push(...(body['events'] as EventSummary[]));
      return reports.reduce((sum, { count }) => sum + count, 0) === 3;
    });
    expect(reports.every(({ type }) => type === 'order.paid')).toBe(true);
    expect(reports.at(-1)?.data).toEqual({ n: 3 });
  });

  test('come on a stream, each counted once', async () => {
    const requestHead = 'GET /events?fold=true&type=order.* HTTP/1.1\r\nhost: localhost\r\n';
    const proof = `authorization: Bearer ${OWNER}\r\n\r\n`;
    const reading = api.raw(requestHead + proof, /"n":13/);
    await eventually('the stream is open', async () => {
      const { body } = await api.ask('/events?fold=true', {
        headers: { accept: 'application/json' },
      });
      return typeof body['cursor'] === 'string';
    });
    for (const n of [11, 12, 13]) await emit(n);
    const counts = [...(await reading).matchAll(/"count":(\d+)/g)].map(([, count]) =>
      Number(count),
    );
    const sum = counts.reduce((all, count) => all + count, 0);
    expect(sum).toBeGreaterThan(0);
    expect(sum).toBeLessThanOrEqual(3);
  });

  test('cost one read in a beat, however many streams there are', async () => {
    const reads = vi.spyOn(api.server.instance.engine.ledger.events, 'list');
    const beganAt = Date.now();
    const requestHead = 'GET /events?fold=true&type=order.* HTTP/1.1\r\nhost: localhost\r\n';
    const proof = `authorization: Bearer ${OWNER}\r\n\r\n`;
    const streams = Array.from({ length: 30 }, () => api.raw(requestHead + proof, /"n":99/));
    let isOver = false;
    const all = Promise.all(streams).finally(() => (isOver = true));
    // A stream may open after the first of them; all get one that comes later.
    await eventually('every stream has told', async () => {
      await emit(99);
      return isOver;
    });
    await all;
    const beats = Math.ceil((Date.now() - beganAt) / limits.eventSummaryMs) + 1;
    // The first read returns the new events; another one sees that this was all.
    expect(reads.mock.calls.length).toBeLessThanOrEqual(3 * beats);
    expect(reads.mock.calls.length).toBeGreaterThan(0);
    reads.mockRestore();
  });
});
