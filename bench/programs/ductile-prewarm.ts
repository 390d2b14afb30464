/** Sends one request at a time to a plugin on an idle system, through the runner and the spawner. */
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { limits } from '../../src/base/limits.ts';
import { makeRunner, toSpec } from '../../src/job/run-plugin.service.ts';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import { loadCatalog } from '../../src/plugin/catalog.ts';
import { makeHost } from '../../src/plugin/host.ts';
import { makePrewarmPool } from '../../src/plugin/prewarm.ts';
import { request } from '../settings.ts';
import { placeShape, readConfig } from './ductile.ts';
import { measure, percentile } from './harness.ts';

const shape = placeShape.extend({ samples: z.number(), pauseMs: z.number() });

await measure(shape, async ({ config, plugin: name, samples, pauseMs }) => {
  const catalog = loadCatalog(readConfig(config));
  const plugin = catalog.plugins.get(name);
  if (plugin === undefined) throw new Error(`there is no plugin ${name}`);
  const { nativeSpawner: nativePath, nodeSpawner: nodeScript } = findInstallPaths();
  const log = (): void => undefined;
  const host = makeHost({ kind: 'native', nativePath, nodeScript, log });
  const environment = { PATH: process.env['PATH'] ?? '' };
  const runner = makeRunner(host, makePrewarmPool({ host, log }));
  await host.start();
  host.renew(limits.timerMsMax);
  runner.prewarm({ catalog, environment });
  const spec = toSpec(plugin, 'handle', environment);
  const body = Buffer.from(request);
  const attempt = { traceparent: '', isAwaited: false };
  const times: number[] = [];
  for (let sample = 0; sample < samples; sample += 1) {
    await pause(pauseMs);
    const began = performance.now();
    const { exit } = await runner.run(plugin, spec, body, attempt);
    times.push(performance.now() - began);
    if (exit.kind !== 'exited' || exit.code !== 0) throw new Error(`${name}: ${exit.kind}`);
  }
  runner.stop();
  await host.stop();
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) };
});
