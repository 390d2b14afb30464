/** Measures the cost of idle tenants. */
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import { settings } from '../settings.ts';
import { errorLog, placeShape, readConfig } from './ductile.ts';
import { measure, round } from './harness.ts';
import { makeTenants } from './tenants.ts';

const shape = placeShape.extend({ tenants: z.number(), seconds: z.number() });

await measure(shape, async ({ config, tenants, seconds }) => {
  const instance = await openInstance(readConfig(config), errorLog());
  const { engine } = instance;
  await makeTenants(engine.ledger, engine.config, tenants);
  await engine.start();
  await pause(settings.warmUpSeconds * 1000);
  const began = performance.now();
  const before = process.cpuUsage();
  await pause(seconds * 1000);
  const { user, system } = process.cpuUsage(before);
  const tookMs = performance.now() - began;
  const residentMb = round(process.memoryUsage().rss / 1024 / 1024);
  await instance.close();
  return { cpuPercent: round((user + system) / 10 / tookMs), residentMb };
});
