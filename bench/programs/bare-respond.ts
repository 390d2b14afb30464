/**
 * The minimum that could return the result of a delivery's job. It verifies the delivery, starts the
 * process through the same spawner, and writes the rows that the documents promise, in two synced
 * commits. There is no engine: nothing is looked up, limited, masked or retried.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import { makeId, makeToken } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import { toSpec } from '../../src/job/run-plugin.service.ts';
import { loadCatalog } from '../../src/plugin/catalog.ts';
import { makeHost } from '../../src/plugin/host.ts';
import { openBareRows, type BareRows } from './bare-rows.ts';
import { placeShape, readConfig } from './ductile.ts';
import { measure } from './harness.ts';
import { loadWebhook, signDelivery } from './webhook-load.ts';

const SECRET = 'bench-secret';
const HEADERS = JSON.stringify([
  ['host', '127.0.0.1'],
  ['x-signature', '[redacted]'],
  ['content-type', 'application/json'],
]);
const shape = placeShape.extend({ connections: z.number() });

await measure(shape, async ({ config, plugin, connections }) => {
  const { state } = readConfig(config);
  if (state.kind !== 'sqlite') throw new Error('this is for SQLite');
  const rows = await openRows(state.path);
  const run = await openProcesses(config, plugin);
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      if (!isSigned(body, String(request.headers['x-signature']))) {
        response.writeHead(401).end();
        return;
      }
      void answer(body.toString()).then((text) => {
        const head = { 'content-type': 'application/json', 'content-length': text.length };
        response.writeHead(200, head).end(text);
      });
    });
  });
  const answer = async (body: string): Promise<string> => {
    const received = await rows.receive(JSON.stringify(JSON.parse(body)), plugin);
    const { stdout } = await run(received.request);
    const result = JSON.stringify(JSON.parse(stdout.toString()));
    await rows.close(received, result);
    return `${result}\n`;
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const proof = signDelivery('x-signature', SECRET);
  return await loadWebhook(`127.0.0.1:${port}`, connections, proof, 200);
});

function isSigned(body: Buffer, signature: string): boolean {
  const expected = `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`;
  return (
    signature.length === expected.length &&
    timingSafeEqual(Buffer.from(signature), Buffer.from(expected))
  );
}

async function openProcesses(config: string, name: string) {
  const plugin = loadCatalog(readConfig(config)).plugins.get(name);
  if (plugin === undefined) throw new Error(`there is no plugin ${name}`);
  const { nativeSpawner: nativePath, nodeSpawner: nodeScript } = findInstallPaths();
  const host = makeHost({ kind: 'native', nativePath, nodeScript, log: () => undefined });
  await host.start();
  host.renew(limits.timerMsMax);
  const spec = toSpec(plugin, 'handle', { PATH: process.env['PATH'] ?? '' });
  return async (request: string) => await host.run(spec, Buffer.from(request));
}

interface ReceivedDelivery {
  readonly seq: number;
  readonly token: string;
  readonly request: string;
}

/** Writes the rows of a delivery, its signal, its job and its attempt. Simultaneous deliveries share a commit. */
async function openRows(path: string) {
  const bare = await openBareRows(path);
  const { db } = bare;
  const claim = db.prepare(`update job_queue set status = 'running', claim_token = ?,
      claimed_by = 'bench', started_at = ?3, claim_expires_at = ?3
    where id = ?2 and status = 'queued' returning seq`);
  const close = db.prepare(`update job_queue set status = 'succeeded', completed_at = ?3,
      claim_token = null, claimed_by = null, claim_expires_at = null
    where seq = ?1 and status = 'running' and claim_token = ?2 returning id`);
  const insertAttempt = db.prepare(`insert into job_log (id, job_id, plugin, command, submitted_by,
      created_at, started_at, source_event_id, status, cause, result, attempt, stderr_truncated,
      process_id, claim_token, completed_at, queue_ms, spawn_ms, run_ms, settle_ms)
    select id || '-1', id, plugin, command, submitted_by, created_at, started_at, source_event_id,
      'succeeded', 'ok', ?, 1, 0, 'bench', ?, ?, 1, 1, 1, 1 from job_queue where seq = ?`);
  const write = makeGroups(bare);
  return {
    async receive(payload: string, plugin: string): Promise<ReceivedDelivery> {
      const [id, signalId, jobId, token] = [makeId(), makeId(), makeId(), makeToken()];
      const event = `{"type":"webhook.received","payload":${payload},"event_id":"${signalId}"}`;
      const about = { id, headers: HEADERS, bodyBytes: payload.length, signalId, data: payload };
      const seq = await write(() => {
        bare.insert({ ...about, jobId, plugin, payload: event });
        return Number(claim.get(token, jobId, now())?.['seq']);
      });
      const request = `{"protocol":2,"job_id":"${jobId}","command":"handle","payload":${payload},"event":${event}}\n`;
      return { seq, token, request };
    },
    close: ({ seq, token }: ReceivedDelivery, result: string) =>
      write(() => {
        close.all(seq, token, now());
        insertAttempt.run(result, token, now(), seq);
      }),
  };
}

function now(): string {
  return new Date().toISOString();
}

/** Combines the writes of one turn of the event loop into one synced transaction. */
function makeGroups(rows: BareRows) {
  let waiting: (() => () => void)[] = [];
  const flush = (): void => {
    const group = waiting;
    waiting = [];
    for (const answer of rows.commit(() => group.map((work) => work()))) answer();
  };
  return <T>(work: () => T): Promise<T> =>
    new Promise((resolve) => {
      if (waiting.length === 0) setImmediate(flush);
      waiting.push(() => {
        const value = work();
        return () => resolve(value);
      });
    });
}
