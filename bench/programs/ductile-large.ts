/**
 * Measures the API over a large ledger. `post` submits jobs while dashboards send the requests of the
 * Overview page. `reads` sends each list and each figure alone.
 */
import { z } from 'zod';
import { listenApi } from '../../src/http/listeners.ts';
import { viewerToken } from '../ductile.ts';
import type { Measures } from '../frame.ts';
import { listRequests } from '../large-requests.ts';
import { runNode } from '../program.ts';
import { payload, settings } from '../settings.ts';
import { errorLog, openWithoutProcesses, placeShape } from './ductile.ts';
import { measure, percentile } from './harness.ts';

const shape = placeShape.extend({ what: z.enum(['post', 'reads']), dashboards: z.number() });

await measure(shape, async ({ config, plugin, what, dashboards }) => {
  const engine = await openWithoutProcesses(config);
  const listener = await listenApi({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const port = Number(listener.address.split(':')[1]);
  const measures = await (what === 'post' ? post(port, plugin, dashboards) : read(port, plugin));
  await listener.close();
  return measures;
});

async function post(port: number, plugin: string, dashboards: number): Promise<Measures> {
  const seconds = settings.largeSeconds;
  const looking = runNode('overview-clients', {
    port,
    count: dashboards,
    seconds: settings.warmUpSeconds + seconds,
  });
  const measures = await runNode('http-load', {
    port,
    connections: 4,
    warmUpSeconds: settings.warmUpSeconds,
    seconds,
    path: `/plugin/${plugin}/handle`,
    proof: ['authorization', `Bearer ${viewerToken(0)}`],
    body: JSON.stringify({ payload }),
  });
  const { rounds = 0 } = await looking;
  if (dashboards > 0 && rounds === 0) throw new Error('no dashboard was answered');
  return { ...measures, rounds };
}

async function read(port: number, plugin: string): Promise<Measures> {
  const measures: Measures = {};
  for (const [name, path] of Object.entries(listRequests(plugin))) {
    const samples: number[] = [];
    for (let at = 0; at < settings.largeSamples + 5; at += 1) {
      const ms = await ask(port, path);
      // The first requests compile code and load pages into memory.
      if (at >= 5) samples.push(ms);
    }
    measures[name] = percentile(samples, 0.5);
  }
  return measures;
}

async function ask(port: number, path: string): Promise<number> {
  const since = performance.now();
  const headers = { authorization: `Bearer ${viewerToken(0)}` };
  const reply = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
  const text = await reply.text();
  // The engine isn't started, so `/healthz` returns 503 with all its figures.
  const isGood = reply.status === (path === '/healthz' ? 503 : 200);
  if (!isGood) throw new Error(`${path}: ${reply.status} ${text.slice(0, 200)}`);
  return performance.now() - since;
}
