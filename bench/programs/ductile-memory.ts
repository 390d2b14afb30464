/** Measures resident memory after a number of jobs of a longer queue. */
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import { errorLog, fillQueue, placeShape, readConfig, startPaused } from './ductile.ts';
import { measure, round } from './harness.ts';

const shape = placeShape.extend({ queued: z.number(), jobs: z.number() });

await measure(shape, async ({ config, plugin, queued, jobs }) => {
  const instance = await openInstance(readConfig(config), errorLog());
  const { engine } = instance;
  const ids = await fillQueue(engine.ledger, plugin, queued);
  await startPaused(engine);
  await engine.direct({ type: 'system.resume', params: {}, actor: 'bench' });
  await engine.waitFor(ids[jobs - 1] ?? '', 110_000);
  const { rss, heapUsed } = process.memoryUsage();
  await instance.close();
  return { jobs, residentMb: megabytes(rss), heapMb: megabytes(heapUsed) };
});

function megabytes(bytes: number): number {
  return round(bytes / 1024 / 1024);
}
