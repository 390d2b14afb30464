/** Measures deliveries that return the result of their job. */
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import { listenWebhooks } from '../../src/http/listeners.ts';
import { errorLog, placeShape, readConfig } from './ductile.ts';
import { measure } from './harness.ts';
import { loadWebhook, openWebhook } from './webhook-load.ts';

const shape = placeShape.extend({ connections: z.number() });

await measure(shape, async ({ config, plugin, connections }) => {
  const instance = await openInstance(readConfig(config), errorLog());
  const { engine } = instance;
  await engine.start();
  const proof = await openWebhook(engine, plugin, { respond: 'result' });
  const listener = await listenWebhooks({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const measures = await loadWebhook(listener.address, connections, proof, 200);
  await listener.close();
  await instance.close();
  return measures;
});
