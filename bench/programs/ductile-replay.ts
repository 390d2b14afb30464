/** Measures a replay of many signals without processes: its speed and memory. */
import { z } from 'zod';
import { makeId } from '../../src/base/ids.ts';
import { payload } from '../settings.ts';
import { openWithoutProcesses, placeShape } from './ductile.ts';
import { batches, growthOf, measure, timed } from './harness.ts';

const shape = placeShape.extend({ signals: z.number() });
const SAMPLE_MS = 20;
const WARM_UP = 2000;

await measure(shape, async ({ config, signals }) => {
  const engine = await openWithoutProcesses(config);
  const { ledger } = engine;
  await ledger.meta.write('paused', '1');
  await engine.start();
  const data = JSON.stringify(payload.payload);
  const emit = async (source: string, count: number): Promise<void> => {
    for (const batch of batches(count, source)) {
      const emissions = batch.map(() => {
        const id = makeId();
        const signal = { id, type: payload.type, source, data, hops: 1, correlationId: id };
        return { signal, jobs: [], runs: [] };
      });
      await ledger.signals.emit(emissions);
    }
  };
  const replay = async (source: string, limit: number): Promise<number> => {
    const params = { source, limit };
    const { result, error } = await engine.direct({
      type: 'signal.replay',
      params,
      actor: 'bench',
    });
    if (result?.['jobs'] !== limit) throw new Error(`not all were handled: ${error ?? ''}`);
    return limit;
  };
  await emit('warm', WARM_UP);
  await emit('shop', signals);
  await replay('warm', WARM_UP);
  const resident: number[] = [];
  const sampler = setInterval(() => resident.push(process.memoryUsage.rss()), SAMPLE_MS);
  const measures = await timed(() => replay('shop', signals));
  clearInterval(sampler);
  await engine.stop();
  return { ...measures, growth: growthOf(resident) };
});
