/** Runs a queue of DBOS workflows that do nothing, polled every 10 ms. */
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { z } from 'zod';
import { loadPeer } from '../peers.ts';
import { payload } from '../settings.ts';
import { Counter, inFlight, measure, timed } from './harness.ts';

type Workflow = (input: unknown) => Promise<unknown>;

interface DbosModule {
  readonly DBOS: {
    setConfig(config: Record<string, unknown>): void;
    registerWorkflow(workflow: Workflow, options: { name: string }): Workflow;
    launch(): Promise<void>;
    registerQueue(name: string, options: { minPollingIntervalMs: number }): Promise<unknown>;
    startWorkflow(workflow: Workflow, options: { queueName: string }): Workflow;
  };
}

const shape = z.object({ url: z.string(), schema: z.string(), jobs: z.number() });

const QUEUE = 'noop';

await measure(shape, async ({ url, schema, jobs }) => {
  const { DBOS } = loadPeer<DbosModule>('@dbos-inc/dbos-sdk');
  DBOS.setConfig({
    name: 'bench',
    systemDatabaseUrl: url,
    systemDatabaseSchemaName: schema,
    systemDatabasePoolSize: 20,
    logLevel: 'error',
  });
  const counter = new Counter(jobs);
  const noop = async (): Promise<{ status: string }> => {
    counter.add();
    return await Promise.resolve({ status: 'ok' });
  };
  const workflow = DBOS.registerWorkflow(noop, { name: 'noop' });
  await DBOS.launch();
  const client = new Client({ connectionString: url });
  await client.connect();
  const start = DBOS.startWorkflow(workflow, { queueName: QUEUE });
  await inFlight(16, jobs, async () => await start(payload));
  return await timed(async () => {
    await DBOS.registerQueue(QUEUE, { minPollingIntervalMs: 10 });
    await counter.reached;
    while ((await countOpen(client, schema)) > 0) await pause(5);
    return jobs;
  });
});

async function countOpen(client: Client, schema: string): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    `select count(*) as count from ${schema}.workflow_status
     where queue_name = $1 and status <> 'SUCCESS'`,
    [QUEUE],
  );
  return Number(rows[0]?.count);
}
