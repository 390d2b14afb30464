/** Measures deliveries that return the result of their job. */
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import { listenWebhooks } from '../../src/http/listeners.ts';
import { errorLog, placeShape, readConfig } from './ductile.ts';
import { measure } from './harness.ts';
import { loadHook, openHook } from './hooks.ts';

const shape = placeShape.extend({ connections: z.number() });

await measure(shape, async ({ config, plugin, connections }) => {
  const instance = await openInstance(readConfig(config), errorLog());
  const { engine } = instance;
  await engine.start();
  const proof = await openHook(engine, plugin, { respond: 'result' });
  const listener = await listenWebhooks({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const measures = await loadHook(listener.address, connections, proof, 200);
  await listener.close();
  await instance.close();
  return measures;
});
