/** A sender that signs, sends and sends again until it is told that its delivery was taken. */
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
/** More would only wait for each other; it is looked after so many. */
const BACKLOG_MAX = 150;
const LOOK_EVERY = 16;
const PATIENCE_MS = 60_000;
const pauseMs = 3;
/** More frequent reads cost the service more than they are worth. */
const fullPauseMs = 50;

/** The outcome of a delivery, as its sender knows it. */
export interface Sent {
  readonly id: string;
  /** How often no answer came. */
  readonly unanswered: number;
  readonly status: number;
  readonly signalId: string;
  readonly jobId: string | undefined;
}

export interface Deliveries {
  /** How many were told that theirs was taken. */
  readonly acknowledged: number;
  stop(): Promise<readonly Sent[]>;
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
  const sent: Sent[] = [];
  let last = 0;
  const sendOne = async (id: string): Promise<Sent> => {
    for (let unanswered = 0; ;) {
      const answer = await deliver(secret, server(), webhookId, id).catch(() => undefined);
      if (answer !== undefined) return { id, unanswered, ...answer };
      unanswered += 1;
      await sleep(pauseMs);
    }
  };
  const send = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      sent.push(await sendOne(`d-${(last += 1)}`));
      if (restMs > 0) await sleep(restMs);
      if (last % LOOK_EVERY > 0) continue;
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
): Promise<Omit<Sent, 'id' | 'unanswered'> | undefined> {
  await server.ready;
  const told = server.records.find(({ message }) => message === 'ductile is ready');
  const port = Number(String(told?.['webhooks']).split(':').at(-1));
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
        .then((said) => {
          const answer = JSON.parse(said) as { signal_id?: string; job_id?: string };
          const { statusCode: status = 0 } = response;
          // A stopping server refuses; a sender repeats.
          if (status === 503) return resolve(undefined);
          return resolve({ status, signalId: answer.signal_id ?? '', jobId: answer.job_id });
        })
        .catch(reject);
    });
    exchange.setTimeout(PATIENCE_MS, () => exchange.destroy(new Error('no answer came')));
    exchange.on('error', reject).end(body);
  });
}

export interface DeliveryVerdict {
  readonly faults: readonly string[];
  readonly counts: {
    readonly acknowledged: number;
    /** No answer came to the first try. */
    readonly unanswered: number;
    /** The accepted ones among those. */
    readonly foundTaken: number;
    readonly jobs: number;
  };
}

/** Compares what senders were told with what is on the ledger, in both directions. */
export async function judgeDeliveries(
  ledger: Ledger,
  webhookId: string,
  history: readonly Sent[],
): Promise<DeliveryVerdict> {
  const faults: string[] = [];
  const kept = await readAll((beforeSeq) =>
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
  const byId = groupBy(kept, ({ deliveryId }) => deliveryId ?? '');
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
  if (signals.size !== kept.length)
    faults.push(`${signals.size} signals, ${kept.length} deliveries`);
  for (const problem of await ledger.check()) faults.push(JSON.stringify(problem));
  const count = (is: (sent: Sent) => boolean): number => history.filter(is).length;
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
