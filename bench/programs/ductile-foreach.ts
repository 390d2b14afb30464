/** Measures one wide block without processes: its speed, the delay of the event loop, and memory. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { z } from 'zod';
import { openWithoutProcesses, placeShape, refuseFailures } from './ductile.ts';
import { growthOf, measure, round, timed } from './harness.ts';

const shape = placeShape.extend({ width: z.number() });
const SAMPLE_MS = 50;
const PATIENCE_MS = 110_000;
/** Warms up first, because compiling and first allocations aren't the cost of the block. */
const WARM_UP_WIDTH = 2000;

await measure(shape, async ({ config, width }) => {
  const engine = await openWithoutProcesses(config);
  await engine.start();
  const finish = async (count: number): Promise<number> => {
    const payload = { items: Array.from({ length: count }, (_, index) => index) };
    const request = { pipeline: 'wide', payload, submittedBy: 'api', actor: 'bench' } as const;
    const { runId } = await engine.startRun(request);
    const { status, haltMessage } = await engine.waitForRun(runId, PATIENCE_MS);
    if (status !== 'succeeded') throw new Error(`the run is ${status}: ${haltMessage ?? ''}`);
    return count;
  };
  await finish(Math.min(width, WARM_UP_WIDTH));
  const resident: number[] = [];
  const sampler = setInterval(() => resident.push(process.memoryUsage.rss()), SAMPLE_MS);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const measures = await timed(() => finish(width));
  delay.disable();
  clearInterval(sampler);
  await refuseFailures(engine.ledger);
  await engine.stop();
  return { ...measures, longestMs: round(delay.max / 1e6), growth: growthOf(resident) };
});
