/** Senders that sign deliveries and repeat them until they are accepted. */
import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../../src/base/limits.ts';
import type { Job } from '../../../src/job/job.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import type { DeliveryRow } from '../../../src/webhook/types.ts';
import type { Client } from './client.ts';
import type { Server } from './server.ts';

const SENDERS = 6;
/** Limit of queued jobs, which is checked after each 16 deliveries. */
const BACKLOG_MAX = 150;
const CHECK_EVERY = 16;
const TIMEOUT_MS = 60_000;
const pauseMs = 3;
/** Pause between reads of the queue's length. */
const fullPauseMs = 50;

/** The outcome of a delivery, as its sender knows it. */
export interface SentDelivery {
  readonly id: string;
  /** Number of requests without a response. */
  readonly unanswered: number;
  readonly status: number;
  readonly signalId: string;
  readonly jobId: string | undefined;
}

export interface Deliveries {
  /** Number of accepted deliveries. */
  readonly acknowledged: number;
  stop(): Promise<readonly SentDelivery[]>;
}

/** The target of deliveries, and their concurrency; each sender rests after a delivery. */
export interface DeliveryPace {
  readonly webhookId?: string;
  readonly senders?: number;
  readonly restMs?: number;
}

export function startDeliveries(
  secret: string,
  client: Client,
  server: () => Server,
  { webhookId = 'gh', senders = SENDERS, restMs = 0 }: DeliveryPace = {},
): Deliveries {
  const stopping = new AbortController();
  const sent: SentDelivery[] = [];
  let last = 0;
  const sendOne = async (id: string): Promise<SentDelivery> => {
    for (let unanswered = 0; ;) {
      const response = await deliver(secret, server(), webhookId, id).catch(() => undefined);
      if (response !== undefined) return { id, unanswered, ...response };
      unanswered += 1;
      await sleep(pauseMs);
    }
  };
  const send = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      sent.push(await sendOne(`d-${(last += 1)}`));
      if (restMs > 0) await sleep(restMs);
      if (last % CHECK_EVERY > 0) continue;
      while (((await client.backlog()) ?? 0) > BACKLOG_MAX) await sleep(fullPauseMs);
    }
  };
  const sending = Array.from({ length: senders }, send);
  return {
    get acknowledged() {
      return sent.length;
    },
    async stop() {
      stopping.abort();
      await Promise.all(sending);
      return sent;
    },
  };
}

async function deliver(
  secret: string,
  server: Server,
  webhookId: string,
  id: string,
): Promise<Omit<SentDelivery, 'id' | 'unanswered'> | undefined> {
  await server.ready;
  const logLine = server.records.find(({ message }) => message === 'ductile is ready');
  const port = Number(String(logLine?.['webhooks']).split(':').at(-1));
  const body = JSON.stringify({ ref: id });
  const mac = createHmac('sha256', secret).update(body).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-hub-signature-256': `sha256=${mac}`,
    'x-github-delivery': id,
  };
  return await new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: `/hooks/${webhookId}`,
      headers,
    };
    const exchange = request({ ...options, agent: false }, (response) => {
      text(response)
        .then((responseText) => {
          const result = JSON.parse(responseText) as { signal_id?: string; job_id?: string };
          const { statusCode: status = 0 } = response;
          // A stopping service refuses, and a sender repeats.
          if (status === 503) return resolve(undefined);
          return resolve({ status, signalId: result.signal_id ?? '', jobId: result.job_id });
        })
        .catch(reject);
    });
    exchange.setTimeout(TIMEOUT_MS, () => exchange.destroy(new Error('no answer came')));
    exchange.on('error', reject).end(body);
  });
}

export interface DeliveryVerdict {
  readonly faults: readonly string[];
  readonly counts: {
    readonly acknowledged: number;
    /** Deliveries whose first request got no response. */
    readonly unanswered: number;
    /** Deliveries that had already been accepted when they were repeated. */
    readonly foundTaken: number;
    readonly jobs: number;
  };
}

/** Compares the responses to senders with the ledger, in both directions. */
export async function checkDeliveries(
  ledger: Ledger,
  webhookId: string,
  history: readonly SentDelivery[],
): Promise<DeliveryVerdict> {
  const faults: string[] = [];
  const stored = await readAll((beforeSeq) =>
    ledger.deliveries.list({ webhookId, ...beforeSeq, ...page }),
  );
  const jobs = await readAll((beforeSeq) =>
    ledger.jobs.list({ plugin: 'taker', ...beforeSeq, ...page }),
  );
  const signals = new Set<string>();
  for (const { id } of await ledger.signals.list({
    source: `webhook:${webhookId}`,
    limit: 1_000_000,
  })) {
    signals.add(id);
  }
  const byId = groupBy(stored, ({ deliveryId }) => deliveryId ?? '');
  const bySignal = groupBy(jobs, ({ sourceEventId }) => sourceEventId ?? '');
  for (const { id, status, signalId, jobId } of history) {
    const [delivery, ...more] = byId.get(id) ?? [];
    const [job, ...others] = bySignal.get(signalId) ?? [];
    if (status !== 202 && status !== 200) faults.push(`${id} was answered ${status}`);
    else if (delivery === undefined) faults.push(`${id} was accepted and is lost`);
    else if (more.length > 0) faults.push(`${id} was taken ${more.length + 1} times`);
    else if (delivery.signalId !== signalId) faults.push(`${id} was told another signal`);
    else if (!signals.has(signalId)) faults.push(`the signal of ${id} is lost`);
    else if (job === undefined) faults.push(`the job of ${id} is lost`);
    else if (others.length > 0) faults.push(`${id} has ${others.length + 1} jobs`);
    else if (jobId !== job.id) faults.push(`${id} was told the job ${jobId}, not ${job.id}`);
    else if (job.status !== 'succeeded') faults.push(`the job of ${id} is ${job.status}`);
  }
  const known = new Set(history.map(({ id }) => id));
  for (const id of byId.keys()) if (!known.has(id)) faults.push(`${id} was sent by nobody`);
  if (signals.size !== stored.length)
    faults.push(`${signals.size} signals, ${stored.length} deliveries`);
  for (const problem of await ledger.check()) faults.push(JSON.stringify(problem));
  const count = (is: (sent: SentDelivery) => boolean): number => history.filter(is).length;
  return {
    faults,
    counts: {
      acknowledged: history.length,
      unanswered: count(({ unanswered }) => unanswered > 0),
      foundTaken: count(({ status }) => status === 200),
      jobs: jobs.length,
    },
  };
}

const page = { limit: limits.pageRowsMax };

async function readAll<Row extends DeliveryRow | Job>(
  read: (from: { readonly beforeSeq?: number }) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let last: number | undefined; ;) {
    const more = await read(last === undefined ? {} : { beforeSeq: last });
    if (more.length === 0) return rows;
    rows.push(...more);
    last = more.at(-1)?.seq;
  }
}

function groupBy<T>(rows: readonly T[], keyOf: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row));
    if (group === undefined) groups.set(keyOf(row), [row]);
    else group.push(row);
  }
  return groups;
}
