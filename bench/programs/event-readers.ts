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
  const told = Array.from({ length: count }, () => 0);
  for (const at of told.keys()) {
    const token = viewerToken(Math.floor(at / STREAMS_EACH));
    const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
    get({ host: '127.0.0.1', port, path: '/events?fold=true', headers, agent: false }, (answer) =>
      countFrames(answer, () => (told[at] = (told[at] ?? 0) + 1)),
    );
  }
  await pause(seconds * 1000);
  return { least: count === 0 ? 0 : Math.min(...told) };
});

function countFrames(answer: IncomingMessage, add: () => void): void {
  if (answer.statusCode !== 200) throw new Error(`the stream was answered ${answer.statusCode}`);
  answer.on('data', (piece: Buffer) => {
    if (piece.includes('event: ')) add();
  });
}
