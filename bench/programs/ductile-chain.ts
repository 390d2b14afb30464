/** Measures the time of one step: of a chain, or of a job without a pipeline. */
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import { payload } from '../settings.ts';
import {
  errorLog,
  openWithoutProcesses,
  placeShape,
  readConfig,
  refuseFailures,
} from './ductile.ts';
import { measure, percentile } from './harness.ts';

const shape = placeShape.extend({
  /** Empty for a job without a pipeline. */
  pipeline: z.string(),
  steps: z.number(),
  samples: z.number(),
  processes: z.boolean(),
});
const PATIENCE_MS = 60_000;
/** Share of warm-up, in which Node compiles the code. */
const WARM_UP = 0.5;

await measure(shape, async ({ config, plugin, pipeline, steps, samples, processes }) => {
  const engine = processes
    ? (await openInstance(readConfig(config), errorLog())).engine
    : await openWithoutProcesses(config);
  await engine.start();
  const submission = { payload, submittedBy: 'api', actor: 'bench' } as const;
  const once = async (): Promise<void> => {
    if (pipeline === '') {
      const { jobId } = await engine.submit({ plugin, command: 'handle', ...submission });
      await engine.waitFor(jobId, PATIENCE_MS);
      return;
    }
    const { runId } = await engine.startRun({ pipeline, ...submission });
    const { status, haltMessage } = await engine.waitForRun(runId, PATIENCE_MS);
    if (status !== 'succeeded') throw new Error(`the run is ${status}: ${haltMessage ?? ''}`);
  };
  for (let at = 0; at < samples * WARM_UP; at += 1) await once();
  const times: number[] = [];
  while (times.length < samples) {
    const began = performance.now();
    await once();
    times.push((performance.now() - began) / steps);
  }
  await refuseFailures(engine.ledger);
  await engine.stop();
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) };
});
