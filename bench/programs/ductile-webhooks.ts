/** The listener of webhooks over an engine that runs no jobs; with `none`, nothing is kept of what comes. */
import { z } from 'zod';
import { listenHooks } from '../../src/http/control.ts';
import { noNews } from '../../src/ledger/runs.ts';
import { errorLog, openWithoutProcesses, placeShape } from './ductile.ts';
import { measure } from './harness.ts';
import { loadHook, openHook } from './hooks.ts';

const shape = placeShape.extend({ connections: z.number(), store: z.enum(['ledger', 'none']) });

await measure(shape, async ({ config, plugin, connections, store }) => {
  const engine = await openWithoutProcesses(config);
  const proof = await openHook(engine, plugin, {});
  if (store === 'none') {
    engine.ledger.receive = (drafts) =>
      Promise.resolve({
        told: drafts.map(({ emission }) => ({ signalId: emission.signal.id, isNew: true })),
        news: noNews,
      });
  }
  const listener = await listenHooks({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const measures = await loadHook(listener.address, connections, proof, 202);
  await listener.close();
  return measures;
});
