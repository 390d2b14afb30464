/** Runs jobs with processes beside open dashboards, each of which follows the events. */
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import { listenApi } from '../../src/http/listeners.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';
import {
  errorLog,
  fillQueue,
  placeShape,
  readConfig,
  refuseFailures,
  startPaused,
} from './ductile.ts';
import { measure, round } from './harness.ts';

const shape = placeShape.extend({
  jobs: z.number(),
  seconds: z.number(),
  dashboards: z.number(),
});

await measure(shape, async ({ config, plugin, jobs, seconds, dashboards }) => {
  const instance = await openInstance(readConfig(config), errorLog());
  const { engine } = instance;
  const { ledger } = engine;
  await fillQueue(ledger, plugin, jobs);
  await startPaused(engine);
  const listener = await listenApi({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const port = Number(listener.address.split(':')[1]);
  const openSeconds = 2 * settings.warmUpSeconds + seconds;
  const reading = runNode('event-readers', { port, count: dashboards, seconds: openSeconds });
  await pause(settings.warmUpSeconds * 1000);
  await engine.direct({ type: 'system.resume', params: {}, actor: 'bench' });
  await pause(settings.warmUpSeconds * 1000);
  const countDone = async (): Promise<number> => {
    const { ready, running } = await ledger.jobs.countQueue();
    return jobs - ready - running;
  };
  const before = await countDone();
  const beganAt = performance.now();
  await pause(seconds * 1000);
  const done = (await countDone()) - before;
  const tookMs = performance.now() - beganAt;
  const { least = 0 } = await reading;
  if (dashboards > 0 && least === 0) throw new Error('a dashboard was told nothing');
  await engine.stop();
  await refuseFailures(ledger);
  await listener.close();
  await instance.close();
  return { jobs: done, rate: round((done * 1000) / tookMs), least };
});
