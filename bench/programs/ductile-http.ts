/**
 * Measures the API server without running jobs. `store` selects the backend: the ledger, nothing, or one
 * ordinary commit per request.
 */
import { join } from 'node:path';
import { z } from 'zod';
import { makeId } from '../../src/base/ids.ts';
import { listenApi } from '../../src/http/listeners.ts';
import { BENCH_TOKEN } from '../ductile.ts';
import { runNode } from '../program.ts';
import { makeQueueFile, openQueueFile } from '../queue-file.ts';
import { payload, settings } from '../settings.ts';
import { errorLog, openWithoutProcesses, placeShape } from './ductile.ts';
import { measure } from './harness.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';

const shape = placeShape.extend({
  connections: z.number(),
  store: z.enum(['ledger', 'none', 'commit each']),
});

await measure(shape, async ({ config, plugin, connections, store }) => {
  const engine = await openWithoutProcesses(config);
  if (store === 'none') engine.submit = () => Promise.resolve({ jobId: makeId() });
  if (store === 'commit each') await commitEach(engine, join(config, 'queue.db'));
  const listener = await listenApi({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const measures = await runNode('http-load', {
    port: Number(listener.address.split(':')[1]),
    connections,
    warmUpSeconds: settings.warmUpSeconds,
    seconds: settings.httpSeconds,
    path: `/plugin/${plugin}/handle`,
    proof: ['authorization', `Bearer ${BENCH_TOKEN}`],
    body: JSON.stringify({ payload }),
  });
  await listener.close();
  return measures;
});

async function commitEach(engine: LedgerEngine, path: string): Promise<void> {
  await makeQueueFile(path, 1);
  const insert = openQueueFile(path).prepare(
    `insert into job (id, command, status, payload, run_at) values (?, ?, 'queued', ?, ?)`,
  );
  engine.submit = ({ command, payload: jobPayload }) => {
    const jobId = makeId();
    insert.run(jobId, command, JSON.stringify(jobPayload), Date.now());
    return Promise.resolve({ jobId });
  };
}
