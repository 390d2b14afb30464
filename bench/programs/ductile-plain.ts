/** Measures the queue alone, from the first enqueue to the last end, as the base for a wide block. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { openWithoutProcesses, placeShape, refuseFailures } from './ductile.ts';
import { measure, round, timed } from './harness.ts';

const shape = placeShape.extend({ jobs: z.number() });
/** As many jobs per commit as a block starts branches. */
const BATCH = 200;
const WARM_UP_JOBS = 2000;

await measure(shape, async ({ config, plugin, jobs }) => {
  const engine = await openWithoutProcesses(config);
  await engine.start();
  const submit = async (item: number): Promise<unknown> =>
    await engine.submit({
      plugin,
      command: 'handle',
      payload: { item, index: item },
      submittedBy: 'api',
      actor: 'bench',
    });
  const finish = async (count: number): Promise<number> => {
    for (let at = 0; at < count; at += BATCH) {
      await Promise.all(
        Array.from({ length: Math.min(BATCH, count - at) }, (_, index) => submit(at + index)),
      );
    }
    for (;;) {
      const { ready, running } = await engine.ledger.jobs.countQueue();
      if (ready + running === 0) return count;
      await pause(1);
    }
  };
  await finish(Math.min(jobs, WARM_UP_JOBS));
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const measures = await timed(() => finish(jobs));
  delay.disable();
  await refuseFailures(engine.ledger);
  await engine.stop();
  return { ...measures, longestMs: round(delay.max / 1e6) };
});
