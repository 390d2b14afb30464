/** Runs jobs with processes for a time, with the complete service. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import {
  errorLog,
  fillQueue,
  placeShape,
  readConfig,
  refuseFailures,
  startPaused,
} from './ductile.ts';
import { settings } from '../settings.ts';
import { measure, round } from './harness.ts';

const shape = placeShape.extend({ jobs: z.number(), seconds: z.number(), heapMb: z.number() });

await measure(shape, async ({ config, plugin, jobs, seconds, heapMb }) => {
  const instance = await openInstance(readConfig(config), errorLog());
  const { engine } = instance;
  const { ledger } = engine;
  await fillQueue(ledger, plugin, jobs);
  await startPaused(engine);
  const ballast = fillHeap(heapMb);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const countDone = async (): Promise<number> => {
    const { ready, running } = await ledger.jobs.countQueue();
    return jobs - ready - running;
  };
  await engine.direct({ type: 'system.resume', params: {}, actor: 'bench' });
  await pause(settings.warmUpSeconds * 1000);
  delay.enable();
  const before = await countDone();
  const beganAt = performance.now();
  await pause(seconds * 1000);
  const after = await countDone();
  const tookMs = performance.now() - beganAt;
  delay.disable();
  if (after === jobs) throw new Error('the queue was too short');
  await engine.stop();
  await refuseFailures(ledger);
  await instance.close();
  return {
    jobs: after - before,
    rate: round(((after - before) * 1000) / tookMs),
    loopP99Ms: delay.percentile(99) / 1e6,
    ballast: ballast.length,
  };
});

/** Fills the heap with small live objects, which make a fork and a garbage collection expensive. */
function fillHeap(megabytes: number): object[] {
  const bytesEach = 160;
  return Array.from({ length: Math.floor((megabytes * 1024 * 1024) / bytesEach) }, (_, at) => ({
    at,
    name: `x${at}`,
    share: at * 1.5,
    list: [at],
  }));
}
