/** Runs BullMQ's own worker, with 100 concurrent jobs, on the Redis of its arm. */
import { z } from 'zod';
import { loadPeer } from '../peers.ts';
import { payload } from '../settings.ts';
import { Counter, batches, measure, timed } from './harness.ts';

interface ConnectionOptions {
  readonly connection: { readonly host: string; readonly port: number };
}

interface BullModule {
  readonly Queue: new (
    name: string,
    options: ConnectionOptions,
  ) => {
    obliterate(options: { force: boolean }): Promise<void>;
    addBulk(jobs: readonly { name: string; data: unknown }[]): Promise<unknown>;
  };
  readonly Worker: new (
    name: string,
    handler: () => Promise<unknown>,
    options: ConnectionOptions & { concurrency: number },
  ) => { on(event: 'completed', handler: () => void): void };
}

const shape = z.object({ port: z.number(), jobs: z.number() });

const QUEUE = 'noop';

await measure(shape, async ({ port, jobs }) => {
  const { Queue, Worker } = loadPeer<BullModule>('bullmq');
  const connection = { host: '127.0.0.1', port };
  const queue = new Queue(QUEUE, { connection });
  await queue.obliterate({ force: true });
  for (const batch of batches(jobs, { name: 'noop', data: payload })) await queue.addBulk(batch);
  const counter = new Counter(jobs);
  return await timed(async () => {
    const worker = new Worker(QUEUE, noop, { connection, concurrency: 100 });
    worker.on('completed', () => counter.add());
    await counter.reached;
    return jobs;
  });
});

async function noop(): Promise<unknown> {
  return await Promise.resolve({ status: 'ok' });
}
