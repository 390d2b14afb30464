/**
 * Measures the time from a submission to the start of its process on an idle system. Like the peer's own
 * client, the submitter has its own connections, so that the engine is notified through the database.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { payload } from '../settings.ts';
import { openWithoutProcesses, placeShape } from './ductile.ts';
import { idleLatency, measure } from './harness.ts';

await measure(placeShape, async ({ config, plugin }) => {
  let onRun: () => void = () => undefined;
  const engine = await openWithoutProcesses(config, () => onRun());
  const submitter = await openWithoutProcesses(config);
  await engine.start();
  await pause(500);
  return await idleLatency(async (ran) => {
    onRun = ran;
    await submitter.submit({
      plugin,
      command: 'handle',
      payload,
      submittedBy: 'api',
      actor: 'bench',
    });
  });
});
