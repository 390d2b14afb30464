/** Measures one synchronous request at a time, from the first byte to the complete response. */
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { openInstance } from '../../src/app/instance.ts';
import { listenApi } from '../../src/http/listeners.ts';
import { BENCH_TOKEN } from '../ductile.ts';
import { payload } from '../settings.ts';
import { errorLog, placeShape, readConfig } from './ductile.ts';
import { measure, percentile } from './harness.ts';

const shape = placeShape.extend({ samples: z.number() });
const WARM_UP = 0.5;
const body = JSON.stringify({ payload });

await measure(shape, async ({ config, samples }) => {
  const instance = await openInstance(readConfig(config), errorLog());
  const { engine } = instance;
  await engine.start();
  const listener = await listenApi({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const port = Number(listener.address.split(':')[1]);
  const times: number[] = [];
  for (let at = -samples * WARM_UP; at < samples; at += 1) {
    const began = performance.now();
    await sendRequest(port);
    if (at >= 0) times.push(performance.now() - began);
  }
  await listener.close();
  await instance.close();
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) };
});

async function sendRequest(port: number): Promise<void> {
  const headers = { authorization: `Bearer ${BENCH_TOKEN}`, 'content-type': 'application/json' };
  const to = { port, host: '127.0.0.1', method: 'POST', path: '/pipeline/one', headers };
  const responseText = await new Promise<string>((resolve, reject) => {
    const outgoing = request(to, (response) => {
      text(response).then(resolve, reject);
    });
    outgoing.on('error', reject).end(body);
  });
  const { status } = JSON.parse(responseText) as { status?: unknown };
  if (status !== 'succeeded') throw new Error(responseText.slice(0, 300));
}
