/** Simulates Overview pages, each of which sends all its requests once per second. */
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { viewerToken } from '../ductile.ts';
import { overviewPaths } from '../large-requests.ts';
import { measure } from './harness.ts';

const shape = z.object({ port: z.number(), count: z.number(), seconds: z.number() });

/** A page reloads after events, at most once per second. */
const BEAT_MS = 1000;

await measure(shape, async ({ port, count, seconds }) => {
  const endAt = performance.now() + seconds * 1000;
  let rounds = 0;
  const look = async (number: number): Promise<void> => {
    const headers = { authorization: `Bearer ${viewerToken(number)}` };
    while (performance.now() < endAt) {
      const since = performance.now();
      await Promise.all(
        overviewPaths.map(async (path) => {
          const reply = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
          const text = await reply.text();
          if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${text}`);
        }),
      );
      rounds += 1;
      await pause(Math.max(0, since + BEAT_MS - performance.now()));
    }
  };
  await Promise.all(Array.from({ length: count }, (_, at) => look(at + 1)));
  return { rounds };
});
