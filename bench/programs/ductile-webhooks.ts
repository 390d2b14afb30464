/**
 * Measures the webhook listener over an engine that runs no jobs. `none` stores nothing; `rows` stores
 * the rows with the fewest statements.
 */
import { join } from 'node:path';
import { z } from 'zod';
import { listenWebhooks } from '../../src/http/listeners.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { noRunEvents } from '../../src/pipeline/run/changes.ts';
import type { DeliveryDraft } from '../../src/webhook/types.ts';
import { openBareRows, type BareDelivery } from './bare-rows.ts';
import { errorLog, openWithoutProcesses, placeShape } from './ductile.ts';
import { measure } from './harness.ts';
import { loadWebhook, openWebhook } from './webhook-load.ts';

const shape = placeShape.extend({
  connections: z.number(),
  store: z.enum(['ledger', 'rows', 'none']),
});

await measure(shape, async ({ config, plugin, connections, store }) => {
  const engine = await openWithoutProcesses(config);
  const proof = await openWebhook(engine, plugin, {});
  if (store !== 'ledger') engine.ledger.webhooks.accept = await makeAcceptStub(store, config);
  const listener = await listenWebhooks({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const measures = await loadWebhook(listener.address, connections, proof, 202);
  await listener.close();
  return measures;
});

/** Creates a replacement of the ledger that reports every delivery as new. */
async function makeAcceptStub(
  store: 'rows' | 'none',
  config: string,
): Promise<Ledger['webhooks']['accept']> {
  const rows = store === 'rows' ? await openBareRows(join(config, 'bare', 'ledger.db')) : undefined;
  return (drafts) => {
    rows?.commit(() => drafts.forEach((draft) => rows.insert(toBare(draft))));
    const results = drafts.map(({ emission }) => ({ signalId: emission.signal.id, isNew: true }));
    return Promise.resolve({ results, events: noRunEvents });
  };
}

function toBare({ id, headers, bodyBytes, emission }: DeliveryDraft): BareDelivery {
  const { signal, jobs } = emission;
  const [job] = jobs;
  if (job === undefined) throw new Error('the delivery starts nothing');
  const { id: jobId, plugin, payload } = job;
  return { id, headers, bodyBytes, signalId: signal.id, data: signal.data, jobId, plugin, payload };
}
