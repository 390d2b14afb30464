/** The control socket and the health listener, over real sockets. */
import { chmodSync, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { Agent, request, type IncomingMessage } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeLogger } from '../../src/base/log.ts';
import { HttpCaller } from '../../src/cli/callers.ts';
import { listenApi, listenControl } from '../../src/http/listeners.ts';
import type { HttpListener } from '../../src/http/listen.ts';
import {
  clearSocket,
  findSocket,
  socketPath,
  type SocketOwner,
} from '../../src/http/control-socket.ts';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeStubEngine, type StubEngine } from '../support/stub-engine.ts';

let engine: StubEngine;
let context: Context;
let owner: SocketOwner;
let listeners: HttpListener[];
let logged: string[];

beforeEach(async () => {
  engine = await makeStubEngine();
  context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' };
  const directory = await makeDirectory();
  owner = { stateDir: directory, tempDir: directory, uid: statSync(directory).uid };
  listeners = [];
  logged = [];
});

afterEach(async () => {
  for (const listener of listeners) await listener.close();
  await engine.ledger.close();
});

function log() {
  const destination = { write: (line: string) => void logged.push(line) };
  return makeLogger({ level: 'debug', format: 'json', destination });
}

async function serve(who: SocketOwner = owner): Promise<string> {
  const listener = await listenControl(who, context, log());
  listeners.push(listener);
  return listener.address;
}

interface Reply {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: Record<string, unknown>;
}

async function send(
  place: { socketPath: string } | { port: number },
  method: string,
  path: string,
  body?: string | Uint8Array | readonly Uint8Array[],
  agent: Agent | false = false,
): Promise<Reply> {
  const outgoing = request({ ...place, method, path, agent });
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.once('error', reject);
  });
  // The server may respond and disconnect before a large body is sent.
  outgoing.on('error', () => undefined);
  if (Array.isArray(body)) for (const chunk of body) outgoing.write(chunk);
  outgoing.end(Array.isArray(body) ? undefined : body);
  const { statusCode: status, headers } = await response;
  const parsed: unknown = JSON.parse(await text(await response));
  return { status, headers, body: parsed as Record<string, unknown> };
}

describe('the socket', () => {
  test('is for its owner alone, and gone after the close', async () => {
    const before = process.umask();
    const path = await serve();
    expect(path).toBe(join(owner.stateDir, 'ductile.sock'));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(process.umask()).toBe(before);
    await listeners.pop()?.close();
    expect(existsSync(path)).toBe(false);
  });

  test('carries operations there and back, errors too', async () => {
    const caller = new HttpCaller({ socketPath: await serve() });
    const run = await caller.call('plugin.run', {
      plugin: 'echo',
      payload: { a: 1 },
      dedupe_key: '7',
    });
    expect(run).toMatchObject({ status: 'queued', plugin: 'echo', command: 'poll' });
    expect(engine.submitted).toMatchObject([{ payload: { a: 1 }, dedupeKey: '7' }]);
    const id = run['job_id'];
    expect(await caller.call('job.inspect', { id })).toMatchObject({ payload: { a: 1 } });
    expect(await caller.call('job.list', { status: ['queued'], limit: 3 })).toMatchObject({
      jobs: [{ job_id: id }],
    });
    expect(await caller.call('job.cancel', { id })).toMatchObject({ status: 'cancelled' });
    expect(await caller.call('system.pause', {})).toMatchObject({ state: 'paused' });
    await expect(caller.call('plugin.run', { plugin: 'eco' })).rejects.toMatchObject({
      code: 'PLUGIN_NOT_FOUND',
      hint: 'Did you mean echo?',
    });
    await expect(caller.call('system.backup', { to: 'relative' })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: 'to',
    });
  });

  /** Only a process that dies without closing its socket leaves it behind. */
  async function leaveSocket(path: string): Promise<void> {
    const script =
      "require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 9))";
    await once(spawn(process.execPath, ['-e', script, path]), 'exit');
    expect(statSync(path).isSocket()).toBe(true);
  }

  test('next to a dead process is removed', async () => {
    const dead = socketPath({ ...owner, processId: 'of-a-dead-one' });
    await leaveSocket(dead);
    await serve();
    expect(existsSync(dead)).toBe(false);
  });

  test('that another one has removed meanwhile is none', async () => {
    const dead = ['aaaaaaaa', 'bbbbbbbb'].map((processId) => socketPath({ ...owner, processId }));
    for (const path of dead) await leaveSocket(path);
    const clearing = clearSocket(socketPath(owner), owner);
    for (const path of dead) rmSync(path);
    await expect(clearing).resolves.toBeUndefined();
  });

  test('without a listener is replaced', async () => {
    const path = socketPath(owner);
    await leaveSocket(path);
    expect(await findSocket(owner)).toBeUndefined();
    expect(await serve()).toBe(path);
    expect(await findSocket(owner)).toBe(path);
  });

  test('with a listener is left alone', async () => {
    const path = await serve();
    await expect(listenControl(owner, context, log())).rejects.toMatchObject({
      code: 'INSTANCE_LOCKED',
      place: path,
    });
    expect((await send({ socketPath: path }, 'GET', '/healthz')).status).toBe(200);
  });

  test('does not take the place of a file', async () => {
    writeFileSync(socketPath(owner), 'precious');
    await expect(serve()).rejects.toMatchObject({ code: 'LISTEN_FAILED' });
    expect(existsSync(socketPath(owner))).toBe(true);
  });

  test('ends idle connections that were kept alive when it closes', async () => {
    const path = await serve();
    const agent = new Agent({ keepAlive: true });
    await send({ socketPath: path }, 'GET', '/healthz', undefined, agent);
    expect(Object.values(agent.freeSockets).flat()).toHaveLength(1);
    const [idle] = Object.values(agent.freeSockets).flat();
    const ended = idle === undefined ? undefined : once(idle, 'close');
    const startedAt = performance.now();
    await listeners.pop()?.close();
    await ended;
    expect(performance.now() - startedAt).toBeLessThan(limits.httpCloseMs);
    agent.destroy();
  });

  test('lets a running request finish, and cuts it when it takes too long', async () => {
    const path = await serve();
    const started = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    engine.work = () => {
      started.resolve();
      return ended.promise;
    };
    const answered = new HttpCaller({ socketPath: path }).call('plugin.run', {
      plugin: 'echo',
      wait: true,
    });
    await started.promise;
    const closed = listeners.pop()?.close();
    ended.resolve();
    expect(await answered).toMatchObject({ plugin: 'echo' });
    await closed;

    const again = await serve();
    const stuck = Promise.withResolvers<void>();
    engine.work = () => {
      stuck.resolve();
      return new Promise<void>(() => undefined);
    };
    const cut = new HttpCaller({ socketPath: again }).call('plugin.run', {
      plugin: 'echo',
      wait: true,
    });
    const refused = expect(cut).rejects.toMatchObject({ code: 'SERVER_UNREACHABLE' });
    await stuck.promise;
    await listeners.pop()?.close();
    await refused;
  });
});

describe('the path of the socket', () => {
  test('on PostgreSQL each process has its own, and any live one is found', async () => {
    const first = { ...owner, processId: '0199a1b2-0000-7000-8000-0000aaaaaaaa' };
    const second = { ...owner, processId: '0199a1b2-0000-7000-8000-0000bbbbbbbb' };
    expect(socketPath(first)).toBe(join(owner.stateDir, 'ductile-aaaaaaaa.sock'));
    await serve(first);
    const path = await serve(second);
    await listeners.shift()?.close();
    expect(await findSocket(owner)).toBe(path);
  });

  test('a path that is too long gives way to a private directory elsewhere', async () => {
    const stateDir = join(owner.stateDir, 'd'.repeat(100));
    mkdirSync(stateDir);
    const far = { ...owner, stateDir };
    const path = await serve(far);
    expect(path.startsWith(join(owner.tempDir, `ductile-${owner.uid}`))).toBe(true);
    expect(Buffer.byteLength(path)).toBeLessThanOrEqual(limits.socketPathBytesMax);
    expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700);
    expect(await findSocket(far)).toBe(path);
    expect(await findSocket({ ...far, stateDir: `${stateDir}x` })).toBeUndefined();
  });

  test('a directory that others can enter is not trusted', async () => {
    const stateDir = join(owner.stateDir, 'd'.repeat(100));
    const shared = join(owner.tempDir, `ductile-${owner.uid}`);
    mkdirSync(stateDir);
    mkdirSync(shared);
    chmodSync(shared, 0o755);
    await expect(serve({ ...owner, stateDir })).rejects.toMatchObject({ code: 'LISTEN_FAILED' });
  });
});

describe('requests', () => {
  test.each([
    ['GET', '/nowhere', undefined, 404, 'ENDPOINT_NOT_FOUND'],
    ['DELETE', '/jobs', undefined, 405, 'METHOD_NOT_ALLOWED'],
    ['GET', '/system/pause', undefined, 405, 'METHOD_NOT_ALLOWED'],
    ['GET', '/job/ffffffff', undefined, 404, 'JOB_NOT_FOUND'],
    ['GET', '/jobs?limit=zero', undefined, 400, 'INPUT_INVALID'],
    ['GET', '/jobs?unheard=1', undefined, 400, 'INPUT_INVALID'],
    ['POST', '/plugin/nobody', '', 404, 'PLUGIN_NOT_FOUND'],
    ['POST', '/plugin/echo/dance', '{}', 404, 'COMMAND_NOT_FOUND'],
    ['POST', '/plugin/broken', '{}', 422, 'PLUGIN_INVALID'],
    ['POST', '/plugin/echo/poll', '{"a":', 400, 'INPUT_INVALID'],
    ['POST', '/plugin/echo/poll', '[1]', 400, 'INPUT_INVALID'],
    ['POST', '/system/pause', 'null', 400, 'INPUT_INVALID'],
  ])('%s %s with %j returns %d %s', async (method, path, body, status, code) => {
    const reply = await send({ socketPath: await serve() }, method, path, body);
    expect(reply.status).toBe(status);
    expect(reply.headers['content-type']).toBe('application/problem+json');
    expect(reply.body).toMatchObject({ code, error: expect.any(String), hint: expect.any(String) });
    expect(reply.body['retryable']).toBeTypeOf('boolean');
    expect(engine.submitted).toEqual([]);
    expect(engine.status().state).toBe('running');
  });

  test('that are not text in UTF-8 are refused', async () => {
    const body = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]);
    const reply = await send({ socketPath: await serve() }, 'POST', '/plugin/echo', body);
    expect(reply).toMatchObject({ status: 400, body: { code: 'INPUT_INVALID', place: 'body' } });
  });

  test.each(['announced', 'streamed'])('that are too large are refused when %s', async (how) => {
    const place = { socketPath: await serve() };
    const half = Buffer.alloc(limits.requestBytesMax / 2, 'a');
    const body = how === 'announced' ? Buffer.concat([half, half, half]) : [half, half, half];
    const reply = await send(place, 'POST', '/plugin/echo', body);
    expect(reply).toMatchObject({ status: 413, body: { code: 'PAYLOAD_TOO_LARGE' } });
    expect(engine.submitted).toEqual([]);
    expect((await send(place, 'GET', '/healthz')).status).toBe(200);
  });

  test('accept a bare payload, a wrapped one and none, and return 202 for work in progress', async () => {
    const place = { socketPath: await serve() };
    for (const body of ['{"a":1}', '{"payload":{"a":1}}', '']) {
      expect(await send(place, 'POST', '/plugin/echo/handle', body)).toMatchObject({
        status: 202,
        body: { status: 'queued', command: 'handle' },
      });
    }
    expect(engine.submitted.map(({ payload }) => payload)).toEqual([{ a: 1 }, { a: 1 }, {}]);
  });

  test('can be dry runs', async () => {
    const reply = await send({ socketPath: await serve() }, 'POST', '/system/pause?dry_run=true');
    expect(reply).toMatchObject({
      status: 200,
      body: { dry_run: true, plan: [expect.any(String)] },
    });
    expect(engine.status().state).toBe('running');
  });

  test('that meet a defect are answered and logged', async () => {
    engine.submit = () => Promise.reject(new TypeError('x is not a function'));
    const reply = await send({ socketPath: await serve() }, 'POST', '/plugin/echo');
    expect(reply).toMatchObject({ status: 500, body: { code: 'INTERNAL' } });
    expect(logged.join('')).toContain('TypeError: x is not a function');
  });
});

test('an address that is in use is an error with its location', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const address = other.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await expect(listenApi({ host: '127.0.0.1', port }, engine, log())).rejects.toMatchObject({
    code: 'LISTEN_FAILED',
    place: `127.0.0.1:${port}`,
  });
  other.close();
});
