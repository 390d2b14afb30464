/** Submits jobs one by one, eight concurrently; nothing runs them. */
import { z } from 'zod';
import { payload } from '../settings.ts';
import { openWithoutProcesses, placeShape } from './ductile.ts';
import { inFlight, measure, timed } from './harness.ts';

const shape = placeShape.extend({ jobs: z.number() });

await measure(shape, async ({ config, plugin, jobs }) => {
  const engine = await openWithoutProcesses(config);
  return await timed(
    async () =>
      await inFlight(8, jobs, async () => {
        await engine.submit({
          plugin,
          command: 'handle',
          payload,
          submittedBy: 'api',
          actor: 'bench',
        });
      }),
  );
});
