/** Measures steps per second of many concurrent chains, without processes. */
import { z } from 'zod';
import { payload } from '../settings.ts';
import { openWithoutProcesses, placeShape, refuseFailures, startPaused } from './ductile.ts';
import { measure, timed } from './harness.ts';

const shape = placeShape.extend({ chains: z.number(), steps: z.number() });

await measure(shape, async ({ config, chains, steps }) => {
  const engine = await openWithoutProcesses(config);
  await startPaused(engine);
  const request = { pipeline: 'chain', payload, submittedBy: 'api', actor: 'bench' } as const;
  const started = await Promise.all(Array.from({ length: chains }, () => engine.startRun(request)));
  const measures = await timed(async () => {
    await engine.direct({ type: 'system.resume', params: {}, actor: 'bench' });
    for (const { runId } of started) await engine.waitForRun(runId, 60_000);
    return chains * steps;
  });
  await refuseFailures(engine.ledger);
  await engine.stop();
  return measures;
});
