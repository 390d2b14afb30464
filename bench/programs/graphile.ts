/** Runs graphile-worker through its own API; `work` uses the settings of its performance page. */
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { z } from 'zod';
import type { Measures } from '../frame.ts';
import { loadPeer } from '../peers.ts';
import { payload } from '../settings.ts';
import { Counter, batches, idleLatency, inFlight, measure, timed } from './harness.ts';

interface Utils {
  migrate(): Promise<void>;
  addJob(task: string, payload: unknown): Promise<unknown>;
  addJobs(jobs: readonly { identifier: string; payload: unknown }[]): Promise<unknown>;
}

interface SharedOptions {
  readonly logger: object;
  readonly preset: { readonly worker: Record<string, unknown> };
}

interface GraphileWorker {
  readonly Logger: new (make: () => () => void) => object;
  readonly makeWorkerUtils: (options: SharedOptions) => Promise<Utils>;
  readonly run: (
    options: SharedOptions & { taskList: Record<string, () => Promise<void>> },
  ) => Promise<unknown>;
}

const shape = z.object({
  test: z.enum(['work', 'enqueue', 'idle']),
  url: z.string(),
  schema: z.string(),
  jobs: z.number(),
});
type Input = z.infer<typeof shape>;

const { Logger, makeWorkerUtils, run } = loadPeer<GraphileWorker>('graphile-worker');
const silent = new Logger(() => () => undefined);

await measure(shape, async (input) => {
  const utils = await makeWorkerUtils(sharedOptions(input, {}));
  await utils.migrate();
  if (input.test === 'work') return await work(utils, input);
  if (input.test === 'idle') return await idle(utils, input);
  return await timed(
    async () => await inFlight(8, input.jobs, async () => await utils.addJob('noop', payload)),
  );
});

async function work(utils: Utils, input: Input): Promise<Measures> {
  for (const batch of batches(input.jobs, { identifier: 'noop', payload })) {
    await utils.addJobs(batch);
  }
  const client = new Client({ connectionString: input.url });
  await client.connect();
  const counter = new Counter(input.jobs);
  const options = sharedOptions(input, {
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  });
  const noop = async (): Promise<void> => {
    counter.add();
    await Promise.resolve();
  };
  return await timed(async () => {
    await run({ ...options, taskList: { noop } });
    await counter.reached;
    // Completions are batched and may follow the last run, so wait until the rows are deleted.
    while ((await countJobs(client, input.schema)) > 0) await pause(5);
    return input.jobs;
  });
}

async function idle(utils: Utils, input: Input): Promise<Measures> {
  let onRun: (() => void) | undefined;
  const noop = async (): Promise<void> => {
    onRun?.();
    await Promise.resolve();
  };
  await run({ ...sharedOptions(input, { concurrentJobs: 10 }), taskList: { noop } });
  await pause(500);
  return await idleLatency(async (ran) => {
    onRun = ran;
    await utils.addJob('noop', payload);
  });
}

function sharedOptions({ url, schema }: Input, worker: Record<string, unknown>): SharedOptions {
  return { logger: silent, preset: { worker: { connectionString: url, schema, ...worker } } };
}

async function countJobs(client: Client, schema: string): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    `select count(*) as count from ${schema}._private_jobs`,
  );
  return Number(rows[0]?.count);
}
