/** The stream of events: live, after a cursor, and never with a gap. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { toTimestamp } from '../../src/base/clock.ts';
import { makeId } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { openRaw } from '../support/ledger/bench.ts';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';
import { makePrincipal } from '../../src/access/tokens.service.ts';
import { useOwnServer } from '../support/postgres.ts';

useOwnServer();

interface Frame {
  readonly id: string;
  readonly event: string;
  readonly data: Record<string, unknown>;
}

interface Reader {
  readonly response: IncomingMessage;
  readonly frames: readonly Frame[];
  readonly text: () => string;
  close(): void;
}

async function follow(
  api: TestApi,
  query = '',
  headers: Readonly<Record<string, string>> = {},
): Promise<Reader> {
  const outgoing = request({
    port: api.port,
    host: '127.0.0.1',
    path: `/events${query}`,
    agent: false,
    headers: { authorization: `Bearer ${OWNER}`, ...headers },
  });
  outgoing.end();
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  const frames: Frame[] = [];
  let text = '';
  let rest = '';
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    rest += chunk;
    const parts = rest.split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const found = /^id: (.*)\nevent: (.*)\ndata: (.*)$/.exec(part);
      if (found === null) continue;
      const [, id = '', event = '', data = ''] = found;
      frames.push({ id, event, data: JSON.parse(data) as Record<string, unknown> });
    }
  });
  outgoing.on('error', () => undefined);
  response.on('error', () => undefined);
  const close = (): void => void outgoing.destroy();
  onTestFinished(close);
  return { response, frames, text: () => text, close };
}

function draft(type: string, data: unknown = {}): SignalDraft {
  const id = makeId();
  return {
    id,
    type,
    source: 'test',
    data: JSON.stringify(data),
    hops: 0,
    correlationId: id,
  };
}

describe.each(databases)('on %s', (database) => {
  let api: TestApi;

  beforeAll(async () => {
    api = await startApi({
      database,
      routes: [{ event_type: 'chain.begun', to: 'teller', command: 'poll' }],
      pipelines: [
        {
          name: 'after',
          on: 'chain.begun',
          steps: [{ uses: 'teller.poll' }, { uses: 'echo.handle' }],
        },
      ],
    });
  });

  afterAll(async () => {
    await api.close();
  });

  const emit = async (...signals: readonly SignalDraft[]): Promise<void> => {
    const { ledger, activity } = api.server.instance.engine;
    await ledger.jobs.enqueue({ jobs: [], signals });
    activity.notice();
  };
  const types = ({ frames }: Reader): string[] => frames.map(({ event }) => event);

  test('the events and the end of a job arrive as they happen', async () => {
    const reader = await follow(api);
    expect(reader.response.headers['content-type']).toBe('text/event-stream');
    const { body } = await api.ask('/plugin/teller/poll', { body: '' });
    await eventually('all came', () => reader.frames.length === 3);
    expect(types(reader)[0]).toBe('job.enqueued');
    expect(types(reader).sort()).toEqual(['job.enqueued', 'job.succeeded', 'thing.told']);
    const accepted = reader.frames.find(({ event }) => event === 'job.enqueued');
    expect(accepted?.data).toMatchObject({ job_id: body['job_id'], data: { plugin: 'teller' } });
    expect(accepted?.data['data']).not.toHaveProperty('payload');
    const frame = reader.frames.find(({ event }) => event === 'thing.told');
    expect(frame?.data).toMatchObject({ data: { n: 1 }, job_id: body['job_id'] });
    const ended = reader.frames.find(({ event }) => event === 'job.succeeded');
    expect(ended?.data['data']).toMatchObject({ plugin: 'teller', attempt: 1 });
    expect(ended?.data['data']).not.toHaveProperty('result');
  });

  test.each([
    ['a signal', '/signals', { type: 'chain.begun', source: 'shop', data: {} }, 'signal_id', 3],
    ['a run', '/pipeline/after', {}, 'job_id', 2],
  ])('all that follows from %s has its correlation', async (_, path, sent, id, jobs) => {
    const reader = await follow(api);
    const { body } = await api.ask(path, { body: JSON.stringify(sent) });
    const count = (type: string): number => types(reader).filter((one) => one === type).length;
    await eventually('it is over', () => {
      return count('job.succeeded') === jobs && count('run.succeeded') === 1;
    });
    expect(count('job.enqueued')).toBe(jobs);
    const correlations = reader.frames.map(({ event, data }) => [event, data['correlation_id']]);
    expect(correlations).toEqual(types(reader).map((type) => [type, body[id]]));
  });

  test('a reader continues after its last id, with nothing lost or repeated', async () => {
    const names = Array.from({ length: 450 }, (_, index) => `step.n${index}`);
    const first = await follow(api, '?type=step.*');
    await emit(...names.slice(0, 200).map((name) => draft(name)));
    await eventually('the first came', () => first.frames.length >= 100);
    first.close();
    const seen = first.frames.slice(0, 100);
    await emit(...names.slice(200).map((name) => draft(name)));
    const second = await follow(api, '?type=step.*', {
      'last-event-id': seen.at(-1)?.id ?? '',
    });
    await eventually('the rest came', () => second.frames.length >= 350);
    expect([...seen, ...second.frames].map(({ event }) => event)).toEqual(names);
  });

  test('a page can be had as JSON, and every cursor in it works', async () => {
    await emit(draft('page.a'), draft('page.b'), draft('page.c'));
    const json = { accept: 'application/json' };
    const readAll = async (): Promise<{ type: string; cursor: string }[]> => {
      const found: { type: string; cursor: string }[] = [];
      for (let after = 'start'; ;) {
        const { body } = await api.ask(`/events?type=page.*&after=${after}`, { headers: json });
        found.push(...(body['events'] as typeof found));
        after = body['cursor'] as string;
        if (body['more'] !== true) return found;
      }
    };
    const found = await eventually('all three are there', async () => {
      const all = await readAll();
      return all.length === 3 && all;
    });
    expect(found.map(({ type }) => type)).toEqual(['page.a', 'page.b', 'page.c']);
    const later = await api.ask(`/events?type=page.*&after=${found[1]?.cursor}`, { headers: json });
    expect(later.body['events']).toMatchObject([{ type: 'page.c' }]);
  });

  test('a cursor of a replaced ledger causes a reset', async () => {
    const cursor = Buffer.from('e.00000000.1.1.1.1.1.1.1.1').toString('base64url');
    const reader = await follow(api, '?type=after.*', { 'last-event-id': cursor });
    await eventually('it is told', () => reader.frames.length > 0);
    expect(types(reader)).toEqual(['reset']);
    await emit(draft('after.reset'));
    await eventually('it goes on', () => reader.frames.length === 2);
    expect(types(reader)).toEqual(['reset', 'after.reset']);
  });

  test('a reader that reads nothing loses nothing, and blocks no other', async () => {
    const reader = await follow(api, '?type=big.*');
    reader.response.pause();
    const filler = 'x'.repeat(20_000);
    const names = Array.from({ length: 600 }, (_, index) => `big.n${index}`);
    for (let at = 0; at < names.length; at += 100) {
      await emit(...names.slice(at, at + 100).map((name) => draft(name, { filler })));
    }
    expect((await api.ask('/healthz')).status).toBe(200);
    reader.response.resume();
    await eventually('all came', () => reader.frames.length === names.length);
    expect(types(reader)).toEqual(names);
  });

  test('a type is one line, whatever a plugin calls it', async () => {
    const reader = await follow(api);
    await emit(draft('evil\nid: 0\n\ndata: x'));
    await emit(draft('good.one'));
    await eventually('both came', () => reader.frames.length === 2);
    expect(reader.frames[0]?.data['type']).toBe('evil\nid: 0\n\ndata: x');
    expect(types(reader)[1]).toBe('good.one');
  });

  test('few streams read at once, however many there are', async () => {
    const { ledger } = api.server.instance.engine;
    const events = ledger.events.list.bind(ledger);
    let now = 0;
    let most = 0;
    vi.spyOn(ledger.events, 'list').mockImplementation(async (...args) => {
      most = Math.max(most, (now += 1));
      return events(...args).finally(() => (now -= 1));
    });
    onTestFinished(() => void vi.restoreAllMocks());
    const readers = await Promise.all(
      Array.from({ length: 20 }, () => follow(api, '?type=shared.*')),
    );
    await emit(draft('shared.one'));
    await eventually('it came to all', () => readers.every(({ frames }) => frames.length === 1));
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(limits.eventReadsMax);
    for (const reader of readers) reader.close();
  });

  test('the streams of one token are counted', async () => {
    const readers: Reader[] = [];
    for (let count = 0; count < limits.eventStreamsPerTokenMax; count += 1) {
      readers.push(await follow(api));
    }
    const refused = await api.ask('/events');
    expect(refused).toMatchObject({ status: 429, body: { code: 'STREAMS_SPENT' } });
    expect(refused.body['error']).toContain('this token already has');
    for (const reader of readers) reader.close();
    const freed = await eventually('there is room again', async () => {
      const reader = await follow(api);
      return reader.response.statusCode === 200 && reader;
    });
    freed.close();
  });
});

test('a slow commit on PostgreSQL delays later events and is never lost', async () => {
  const api = await startApi({ database: 'postgres' });
  onTestFinished(() => api.close());
  const { ledger } = api.server.instance.engine;
  const raw = openRaw(api.server.instance.config.state);
  onTestFinished(() => raw.close());
  const reader = await follow(api, '?type=slow.*');
  await raw.run('begin');
  // The current time, because older events would be pruned at once.
  const now = toTimestamp(Date.now());
  await raw.run(
    `insert into signals (id, type, source, data, correlation_id, occurred_at, inserted_at)
      values ('slow', 'slow.first', 'test', '{}', 'slow', '${now}', '${now}')`,
  );
  await ledger.jobs.enqueue({ jobs: [], signals: [draft('slow.second')] });
  const rows = await ledger.signals.list({ type: 'slow.second', limit: 1 });
  expect(rows).toHaveLength(1);
  const page = await api.ask('/events?after=start&type=slow.*', {
    headers: { accept: 'application/json' },
  });
  expect(page.body['events']).toEqual([]);
  await raw.run('commit');
  await eventually('both came', () => reader.frames.length === 2);
  expect(reader.frames.map(({ event }) => event)).toEqual(['slow.first', 'slow.second']);
});

test('a token in the query is accepted for streams if the operator allows it', async () => {
  const api = await startApi({ api: { sse_query_token: true } });
  onTestFinished(() => api.close());
  const open = (path: string) =>
    api.ask(path, { token: undefined, headers: { accept: 'application/json' } });
  expect((await open(`/events?token=${OWNER}`)).status).toBe(200);
  expect((await open('/events?token=wrong')).status).toBe(401);
  expect((await open(`/jobs?token=${OWNER}`)).status).toBe(401);
  expect(JSON.stringify(api.records)).not.toContain(OWNER);
});

test('a stream ends when its token may no longer read events', async () => {
  const api = await startApi();
  onTestFinished(() => api.close());
  const reader = await follow(api);
  const ended = once(reader.response, 'close');
  const { tokens } = api.server.instance.engine;
  vi.spyOn(tokens, 'find').mockResolvedValue(makePrincipal('token:owner', ['jobs:ro']));
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + limits.eventHeartbeatMs);
  onTestFinished(() => void vi.restoreAllMocks());
  await ended;
  expect(reader.response.complete).toBe(true);
});

test('a stream of a revoked token reports nothing that happens after that', async () => {
  const api = await startApi();
  onTestFinished(() => api.close());
  const made = await api.ask('/tokens', { body: '{"name": "reader", "scopes": ["events:ro"]}' });
  const authorization = `Bearer ${String(made.body['token'])}`;
  const reader = await follow(api, '?type=seen.*', { authorization });
  const ended = once(reader.response, 'close');
  const { ledger, activity } = api.server.instance.engine;
  await ledger.jobs.enqueue({ jobs: [], signals: [draft('seen.before')] });
  activity.notice();
  await eventually('it is told', () => reader.frames.length === 1);
  expect((await api.ask('/tokens/reader/revoke', { body: '{}' })).status).toBe(200);
  await ledger.jobs.enqueue({ jobs: [], signals: [draft('seen.after')] });
  activity.notice();
  await ended;
  expect(reader.frames.map(({ event }) => event)).toEqual(['seen.before']);
});

test('the end of the server is the end of its streams', async () => {
  const api = await startApi();
  const reader = await follow(api);
  const ended = once(reader.response, 'close');
  await api.close();
  await ended;
  expect(reader.response.complete).toBe(true);
});
