/** Runs pg-boss through its own API: `fetch` is a loop of fetch and complete, `work` uses its workers. */
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import type { Measures } from '../frame.ts';
import { loadPeer } from '../peers.ts';
import { payload } from '../settings.ts';
import { Counter, batches, inFlight, measure, timed } from './harness.ts';

interface Boss {
  on(event: 'error', handler: (error: Error) => void): void;
  start(): Promise<unknown>;
  createQueue(name: string): Promise<void>;
  send(name: string, data: unknown): Promise<unknown>;
  insert(name: string, jobs: readonly { data: unknown }[]): Promise<unknown>;
  fetch(name: string, options: { batchSize: number }): Promise<{ id: string }[]>;
  complete(name: string, ids: readonly string[]): Promise<unknown>;
  work(
    name: string,
    options: { batchSize: number; pollingIntervalSeconds: number },
    handler: (jobs: unknown[]) => Promise<void>,
  ): Promise<unknown>;
  getDb(): { executeSql(text: string, values: unknown[]): Promise<{ rows: { count: string }[] }> };
}

interface PgBossModule {
  readonly PgBoss: new (options: Record<string, unknown>) => Boss;
}

const shape = z.object({
  test: z.enum(['fetch', 'work', 'enqueue']),
  url: z.string(),
  schema: z.string(),
  jobs: z.number(),
});

const QUEUE = 'noop';
const BATCH = 500;
const { PgBoss } = loadPeer<PgBossModule>('pg-boss');

await measure(shape, async ({ test, url, schema, jobs }) => {
  const boss = new PgBoss({ connectionString: url, schema, max: 16 });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  await boss.createQueue(QUEUE);
  if (test === 'enqueue') {
    return await timed(
      async () => await inFlight(8, jobs, async () => await boss.send(QUEUE, payload)),
    );
  }
  for (const batch of batches(jobs, { data: payload })) await boss.insert(QUEUE, batch);
  return test === 'fetch'
    ? await timed(async () => await fetchAll(boss))
    : await work(boss, jobs, schema);
});

async function fetchAll(boss: Boss): Promise<number> {
  let jobs = 0;
  const slot = async (): Promise<void> => {
    for (;;) {
      const fetched = await boss.fetch(QUEUE, { batchSize: BATCH });
      if (fetched.length === 0) return;
      await boss.complete(
        QUEUE,
        fetched.map(({ id }) => id),
      );
      jobs += fetched.length;
    }
  };
  await Promise.all(Array.from({ length: 4 }, slot));
  return jobs;
}

async function work(boss: Boss, jobs: number, schema: string): Promise<Measures> {
  const counter = new Counter(jobs);
  return await timed(async () => {
    for (let worker = 0; worker < 8; worker += 1) {
      await boss.work(QUEUE, { batchSize: BATCH, pollingIntervalSeconds: 0.5 }, async (batch) => {
        counter.add(batch.length);
        await Promise.resolve();
      });
    }
    await counter.reached;
    while ((await countOpen(boss, schema)) > 0) await pause(5);
    return jobs;
  });
}

async function countOpen(boss: Boss, schema: string): Promise<number> {
  const { rows } = await boss
    .getDb()
    .executeSql(
      `select count(*) as count from ${schema}.job where name = $1 and state < 'completed'`,
      [QUEUE],
    );
  return Number(rows[0]?.count);
}
