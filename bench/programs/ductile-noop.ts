/** Measures the queue alone: every durable write of a job, without a process. */
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import {
  fillQueue,
  openWithoutProcesses,
  placeShape,
  refuseFailures,
  startPaused,
} from './ductile.ts';
import { measure, timed } from './harness.ts';

const shape = placeShape.extend({ jobs: z.number() });

await measure(shape, async ({ config, plugin, jobs }) => {
  const engine = await openWithoutProcesses(config);
  const { ledger } = engine;
  const last = (await fillQueue(ledger, plugin, jobs)).at(-1) ?? '';
  await startPaused(engine);
  const measures = await timed(async () => {
    await engine.direct({ type: 'system.resume', params: {}, actor: 'bench' });
    await engine.waitFor(last, 60_000);
    while (await isBusy()) await pause(1);
    return jobs;
  });
  await refuseFailures(ledger);
  await engine.stop();
  return measures;

  async function isBusy(): Promise<boolean> {
    const { ready, running } = await ledger.jobs.countQueue();
    return ready + running > 0;
  }
});
