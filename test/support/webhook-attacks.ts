/** Sends deliveries byte by byte like an attacker, and checks that they have no effect. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'vitest';
import { startApi, type ApiSetup, type TestApi } from './api-server.ts';

export type Lines = readonly (readonly [name: string, value: string])[];

export interface AttackResponse {
  readonly status: number;
  readonly text: string;
  readonly head: string;
}

export interface AttackedService {
  readonly api: TestApi;
  readonly port: number;
  /** Creates a webhook and returns its secret. */
  open(id: string, entry: object): Promise<string>;
  /**
   * Sends headers as they are, even duplicates; the default type is JSON. If the test is a trusted proxy,
   * each request has its own source address.
   */
  post(path: string, lines: Lines, body: string | Buffer): Promise<AttackResponse>;
  /** Sends chunks in sequence, and returns the response until the connection closes. */
  raw(pieces: readonly (string | Buffer)[]): Promise<string>;
  /** Runs `work` and checks that it caused no job, run or signal. */
  comesToNothing(work: () => Promise<void>): Promise<void>;
}

export async function openAttackedService(setup: ApiSetup = {}): Promise<AttackedService> {
  const api = await startApi({ webhooks: { listen: '127.0.0.1:0' }, ...setup });
  const port = Number(api.server.surfaces.webhooks?.split(':').at(-1));
  const send = (pieces: readonly (string | Buffer)[]): Promise<string> => raw(port, pieces);
  const isProxy = api.server.instance.config.webhooks.trustedProxies.includes('127.0.0.1');
  let sent = 0;
  return {
    api,
    port,
    async open(id, entry) {
      const body = JSON.stringify({ title: 'T', id, ...entry });
      const created = await api.ask('/webhooks', { body });
      expect([created.status, created.text]).toEqual([201, expect.any(String)]);
      return String(created.body['secret'] ?? created.body['global_token']);
    },
    async post(path, lines, body) {
      const typed = lines.some(([name]) => name.toLowerCase() === 'content-type');
      const all: Lines = [
        ['host', 'hooks.example'],
        ['connection', 'close'],
        ...(typed ? [] : [['content-type', 'application/json'] as const]),
        ...(isProxy ? [['x-forwarded-for', `10.0.${sent >> 8}.${sent & 255}`] as const] : []),
        ...lines,
        ['content-length', String(Buffer.byteLength(body))],
      ];
      sent += 1;
      const head = all.map(([name, value]) => `${name}: ${value}\r\n`).join('');
      const request = Buffer.from(`POST ${path} HTTP/1.1\r\n${head}\r\n`, 'latin1');
      return parseResponse(await send([Buffer.concat([request, Buffer.from(body)])]));
    },
    raw: send,
    async comesToNothing(work) {
      const before = await recordOf(api);
      await work();
      expect(await recordOf(api)).toEqual(before);
    },
  };
}

export function mac(secret: string | Buffer, text: string | Buffer, encoding: 'hex' | 'base64') {
  return createHmac('sha256', secret).update(text).digest(encoding);
}

export function parseResponse(responseText: string): AttackResponse {
  const [head = '', ...rest] = responseText.split('\r\n\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(responseText)?.[1]);
  return { status, head, text: rest.join('\r\n\r\n') };
}

/** Lists everything that deliveries could have started. */
async function recordOf({ server }: TestApi): Promise<object> {
  const { ledger } = server.instance.engine;
  const limit = 1000;
  const [jobs, runs, signals, deliveries] = await Promise.all([
    ledger.jobs.list({ limit }),
    ledger.runs.list({ limit }),
    ledger.signals.list({ limit }),
    ledger.deliveries.list({ verdict: 'accepted', limit }),
  ]);
  return [jobs, runs, signals, deliveries].map((rows) => rows.map(({ id }) => id));
}

async function raw(port: number, pieces: readonly (string | Buffer)[]): Promise<string> {
  const socket = connect(port, '127.0.0.1').setNoDelay(true);
  let responseText = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (responseText += chunk));
  socket.on('error', () => undefined);
  const closed = once(socket, 'close');
  for (const piece of pieces) await new Promise((done) => socket.write(piece, done));
  await closed;
  return responseText;
}
