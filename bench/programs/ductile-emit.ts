/** Emits signals without handlers, a number of them concurrently. */
import { z } from 'zod';
import { payload } from '../settings.ts';
import { openWithoutProcesses, placeShape } from './ductile.ts';
import { inFlight, measure, timed } from './harness.ts';

const shape = placeShape.extend({ jobs: z.number(), atOnce: z.number() });
const WARM_UP = 1000;

await measure(shape, async ({ config, jobs, atOnce }) => {
  const engine = await openWithoutProcesses(config);
  const { type } = payload;
  const signal = { type, source: 'shop', data: payload.payload, actor: 'bench' };
  const emit = (count: number): Promise<number> =>
    inFlight(atOnce, count, () => engine.signals.emit(signal));
  await emit(WARM_UP);
  return await timed(() => emit(jobs));
});
