/** Measures how long a tenant's job waits beside another tenant, with or without a queue. */
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import { payload, settings } from '../settings.ts';
import { errorLog, fillQueue, placeShape, readConfig } from './ductile.ts';
import { measure, percentile } from './harness.ts';
import { enter, makeTenants } from './tenants.ts';

const shape = placeShape.extend({ queued: z.number(), samples: z.number(), pauseMs: z.number() });
const JOB_MS = 60_000;

await measure(shape, async ({ config, plugin, queued, samples, pauseMs }) => {
  const instance = await openInstance(readConfig(config), errorLog());
  const { engine } = instance;
  const [busy = '', other = ''] = await makeTenants(engine.ledger, engine.config, 2);
  await engine.start();
  const first = await enter(engine, busy);
  const second = await enter(engine, other);
  /** Returns the recorded time from acceptance to start, in whole milliseconds, at least 1. */
  const runOne = async (): Promise<number> => {
    const submission = {
      plugin,
      command: 'handle',
      payload,
      submittedBy: 'api',
      actor: 'bench',
    } as const;
    const { jobId } = await second.engine.submit({ ...submission, isAwaited: true });
    await second.engine.waitFor(jobId, JOB_MS);
    const [attempt] = await second.engine.ledger.attempts.listByJob([jobId]);
    return Math.max(1, attempt?.queueMs ?? JOB_MS);
  };
  await fillQueue(first.engine.ledger, plugin, queued);
  await pause(settings.warmUpSeconds * 1000);
  await runOne();
  const waits: number[] = [];
  while (waits.length < samples) {
    await pause(pauseMs);
    waits.push(await runOne());
  }
  const { ready } = await first.engine.ledger.jobs.countQueue();
  if (queued > 0 && ready === 0) throw new Error('the first tenant had nothing left to do');
  return { p50Ms: percentile(waits, 0.5), p99Ms: percentile(waits, 0.99), left: ready };
});
