/** Runs plainjob's own worker on better-sqlite3; its default is synchronous=NORMAL. */
import { z } from 'zod';
import { loadPeer } from '../peers.ts';
import { payload } from '../settings.ts';
import { Counter, batches, measure, timed } from './harness.ts';

interface Database {
  pragma(text: string): unknown;
}

type Logger = Record<'error' | 'warn' | 'info' | 'debug', () => void>;

interface Queue {
  addMany(type: string, data: readonly unknown[]): unknown;
}

interface PlainjobModule {
  readonly better: (database: Database) => object;
  readonly defineQueue: (options: { connection: object; logger: Logger }) => Queue;
  readonly defineWorker: (
    type: string,
    handler: () => Promise<void>,
    options: { queue: Queue; logger: Logger; onCompleted: () => void },
  ) => { start(): Promise<void> };
}

const shape = z.object({
  file: z.string(),
  synchronous: z.enum(['FULL', 'as shipped']),
  jobs: z.number(),
});

const ignore = (): void => undefined;
const logger: Logger = { error: ignore, warn: ignore, info: ignore, debug: ignore };

await measure(shape, async ({ file, synchronous, jobs }) => {
  const { better, defineQueue, defineWorker } = loadPeer<PlainjobModule>('plainjob');
  const Sqlite = loadPeer<new (file: string) => Database>('better-sqlite3');
  const database = new Sqlite(file);
  const queue = defineQueue({ connection: better(database), logger });
  if (synchronous === 'FULL') database.pragma('synchronous = full');
  for (const batch of batches(jobs, payload)) queue.addMany('noop', batch);
  const counter = new Counter(jobs);
  const onCompleted = (): void => counter.add();
  return await timed(async () => {
    void defineWorker('noop', noop, { queue, logger, onCompleted }).start();
    await counter.reached;
    return jobs;
  });
});

async function noop(): Promise<void> {
  await Promise.resolve();
}
