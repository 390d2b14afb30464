/** Simulates open dashboards: reads a number of event streams for a time. */
import { get, type IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { viewerToken } from '../ductile.ts';
import { measure } from './harness.ts';

const shape = z.object({ port: z.number(), count: z.number(), seconds: z.number() });

/** Streams per token, below its limit. */
const STREAMS_EACH = 30;

await measure(shape, async ({ port, count, seconds }) => {
  const frameCounts = Array.from({ length: count }, () => 0);
  for (const at of frameCounts.keys()) {
    const token = viewerToken(Math.floor(at / STREAMS_EACH));
    const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
    get({ host: '127.0.0.1', port, path: '/events?fold=true', headers, agent: false }, (response) =>
      countFrames(response, () => (frameCounts[at] = (frameCounts[at] ?? 0) + 1)),
    );
  }
  await pause(seconds * 1000);
  return { least: count === 0 ? 0 : Math.min(...frameCounts) };
});

function countFrames(response: IncomingMessage, add: () => void): void {
  if (response.statusCode !== 200)
    throw new Error(`the stream was answered ${response.statusCode}`);
  response.on('data', (piece: Buffer) => {
    if (piece.includes('event: ')) add();
  });
}
