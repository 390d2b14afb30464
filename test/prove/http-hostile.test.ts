/**
 * Hostile requests: each gets the exact response, never a 5xx, and other clients are served
 * meanwhile. Some kinds need more than one request: 50 and 51 are in test/access/tokens.test.ts and
 * test/tenant/isolation.test.ts, 55 in test/ui/hostile.test.ts, 57 in
 * test/plugins/http-fetch-guard.alone.test.ts, 58 and 59 in test/signal/events.test.ts, and slow
 * clients in test/http/slow-clients.test.ts.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { startApi, type TestApi } from '../support/api-server.ts';
import { bodies } from './http/bodies.ts';
import { makeBroken } from './http/broken.ts';
import { framing } from './http/framing.ts';
import { get, host, lines, post, sendBytes, token, type Hostile } from './http/hostile.ts';
import { places } from './http/places.ts';
import { campaign } from './support/campaign.ts';
import type { Random } from '../support/crash/random.ts';

const kinds = [...framing, ...places, ...bodies];
const AT_ONCE = 10;
const KEYED = 20;

campaign('http-hostile', { trials: 1, timeoutMs: 300_000 }, async ({ random, index, isShort }) => {
  const api = await startApi({ database: index % 2 === 1 ? 'postgres' : 'sqlite' });
  try {
    const healthMs: number[] = [];
    const look = async (): Promise<void> => {
      const began = performance.now();
      expect((await api.ask('/healthz')).status).toBe(200);
      healthMs.push(performance.now() - began);
    };
    for (const batch of inBatches(shuffle(kinds, random))) {
      await Promise.all([...batch.map((one) => expectAnswer(api, one)), look()]);
    }
    await expectNothingDone(api);
    const broken = await sendBroken(api, random, look, isShort ? 200 : 1000);
    await holdUp(api, look, isShort ? 20 : 100);
    await expectFewStreams(api, look);
    await expectPipelined(api);
    await expectOneJob(api, `key-${index}`);
    expect(api.records.filter(({ level }) => level === 'error')).toEqual([]);
    const numbers = new Set(kinds.map(({ kind }) => kind));
    return { inputs: kinds.length, kinds: [numbers.size], ...broken, healthMs };
  } finally {
    await api.close();
  }
});

async function expectAnswer(api: TestApi, one: Hostile): Promise<void> {
  const { kind, what, bytes, status, isOpenEnded = false } = one;
  const answer = await sendBytes(api.port, bytes);
  expect([kind, what, answer.status]).toEqual([kind, what, status]);
  expect(answer.head).not.toMatch(/^set-cookie/im);
  expect(answer.body).not.toContain('root:');
  if (isOpenEnded) expect(answer.head).toMatch(/^connection: close$/im);
  if (status < 400) return;
  expect(answer.head).toMatch(/^content-type: application\/problem\+json$/im);
  expect(JSON.parse(answer.body)).toMatchObject({
    status,
    error: expect.any(String),
    code: expect.any(String),
  });
}

async function expectNothingDone(api: TestApi): Promise<void> {
  const { ledger } = api.server.instance.engine;
  expect((await ledger.jobs.countQueue()).running).toBe(0);
  expect(await ledger.jobs.list({ limit: 1 })).toEqual([]);
}

/** The only valid results are a response below 500 and a closed connection. */
async function sendBroken(
  api: TestApi,
  random: Random,
  look: () => Promise<void>,
  count: number,
): Promise<Readonly<Record<string, number>>> {
  const seen = new Set<string>();
  for (let sent = 0; sent < count; sent += AT_ONCE) {
    const batch = Array.from({ length: AT_ONCE }, () => makeBroken(random));
    const answers = batch.map((bytes) => sendBytes(api.port, bytes, true));
    const [responses] = await Promise.all([Promise.all(answers), look()]);
    for (const [at, answer] of responses.entries()) {
      for (const [, status = ''] of answer.text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)) {
        seen.add(status);
        const request = JSON.stringify(batch[at]?.toString('latin1'));
        if (status.startsWith('5')) expect.fail(`${request} got ${answer.text}`);
      }
    }
  }
  // The requests reached the operations, not only the parser.
  expect([...seen]).toEqual(expect.arrayContaining(['200', '400', '401', '404']));
  return { broken: count };
}

/** Kinds 27 to 30, 32 and 33: slow, idle and disconnected clients delay no other client. */
async function holdUp(api: TestApi, look: () => Promise<void>, each: number): Promise<void> {
  const ways: readonly (readonly [bytes: string, isRead: boolean])[] = [
    [`GET /jobs HTTP/1.1\r\n${host}\r\nx-slow: `, true],
    [`${lines(post, host, token, 'content-length: 100')}{`, true],
    [lines('GET /openapi.json HTTP/1.1', host, token), false],
    [lines(get, host, token), true],
    ['', true],
  ];
  const sockets = await Promise.all(
    ways.flatMap(([bytes, isRead]) => Array.from({ length: each }, () => open(api, bytes, isRead))),
  );
  for (let count = 0; count < AT_ONCE; count += 1) await look();
  for (const [at, socket] of sockets.entries()) {
    if (at % 2 === 0) socket.resetAndDestroy();
    else socket.destroy();
  }
  await look();
  const short = await sendBytes(
    api.port,
    `${lines(post, host, token, 'content-length: 100')}{`,
    true,
  );
  expect(short.status === 400 || short.text === '').toBe(true);
}

async function open(api: TestApi, bytes: string, isRead: boolean): Promise<Socket> {
  const socket = connect(api.port, '127.0.0.1').on('error', () => undefined);
  if (isRead) socket.resume();
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

/** Kind 62: a token gets so many event streams, and others get theirs. */
async function expectFewStreams(api: TestApi, look: () => Promise<void>): Promise<void> {
  const streamRequest = lines('GET /events HTTP/1.1', host, token);
  const count = 2 * limits.eventStreamsPerTokenMax;
  const sockets = Array.from({ length: count }, () =>
    connect(api.port, '127.0.0.1').on('error', () => undefined),
  );
  const statuses = await Promise.all(
    sockets.map(async (socket) => {
      socket.write(streamRequest);
      const [chunk] = (await once(socket, 'data')) as [Buffer];
      return chunk.toString('latin1').slice(9, 12);
    }),
  );
  const opened = statuses.filter((status) => status === '200');
  expect(opened).toHaveLength(limits.eventStreamsPerTokenMax);
  expect(new Set(statuses)).toEqual(new Set(['200', '429']));
  await look();
  for (const socket of sockets) socket.destroy();
}

/** Kind 31. */
async function expectPipelined(api: TestApi): Promise<void> {
  const one = lines('GET /healthz HTTP/1.1', host);
  const last = lines('GET /healthz HTTP/1.1', host, 'connection: close');
  const { text } = await sendBytes(api.port, one.repeat(999) + last, true);
  expect(text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(1000);
}

/** Kind 52: a key means one job and one body, for any number of simultaneous requests. */
async function expectOneJob(api: TestApi, key: string): Promise<void> {
  const headers = { 'idempotency-key': key };
  const ask = (body: string) => api.ask('/plugin/echo/poll', { headers, body });
  const replies = await Promise.all(
    Array.from({ length: KEYED }, () => ask('{"payload":{"a":1}}')),
  );
  expect(new Set(replies.map(({ body }) => body['job_id'])).size).toBe(1);
  expect(replies.every(({ status }) => status < 300)).toBe(true);
  expect((await ask('{"payload":{"a":2}}')).status).toBe(422);
}

function inBatches<T>(list: readonly T[]): T[][] {
  const count = Math.ceil(list.length / AT_ONCE);
  return Array.from({ length: count }, (_, at) => list.slice(at * AT_ONCE, (at + 1) * AT_ONCE));
}

function shuffle<T>(list: readonly T[], random: Random): T[] {
  return list
    .map((item) => ({ item, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
