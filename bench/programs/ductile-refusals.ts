/**
 * Measures whether the duration of a refusal reveals its kind. All kinds take turns over one connection,
 * in a changing order, so that other load affects all of them.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { z } from 'zod';
import { listenWebhooks } from '../../src/http/listeners.ts';
import { makeRandom } from '../frame.ts';
import { settings } from '../settings.ts';
import { errorLog, openWithoutProcesses, placeShape } from './ductile.ts';
import { measure, percentile } from './harness.ts';
import { WEBHOOK_PATH, webhookBody, openWebhook, type Proof } from './webhook-load.ts';

const WARM_UP = 0.2;

await measure(placeShape.extend({ seed: z.number() }), async ({ config, plugin, seed }) => {
  const engine = await openWithoutProcesses(config);
  const proof = await openWebhook(engine, plugin, {});
  const off = { title: 'Off', plugin, enabled: false };
  await engine.direct({
    type: 'webhook.create',
    actor: 'bench',
    params: { id: 'disabled', settings: off },
  });
  const listener = await listenWebhooks({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const socket = connect(Number(listener.address.split(':')[1]), '127.0.0.1').setNoDelay(true);
  await once(socket, 'connect');
  // A source with a valid delivery isn't throttled for later failures.
  await timeOf(socket, requestOf(WEBHOOK_PATH, proof));
  const kinds = {
    unknownMs: requestOf('/hooks/unknown1', proof),
    disabledMs: requestOf('/hooks/disabled', proof),
    firstWrongMs: requestOf(WEBHOOK_PATH, change(proof, 'sha256='.length)),
    lastWrongMs: requestOf(WEBHOOK_PATH, change(proof, proof[1].length - 1)),
  };
  const times = new Map(Object.keys(kinds).map((kind) => [kind, [] as number[]]));
  const random = makeRandom(seed);
  for (let at = -settings.refusals * WARM_UP; at < settings.refusals; at += 1) {
    const order = Object.entries(kinds).toSorted(() => random() - 0.5);
    for (const [kind, request] of order) {
      const ms = await timeOf(socket, request);
      if (at >= 0) times.get(kind)?.push(ms);
    }
  }
  socket.destroy();
  await listener.close();
  return Object.fromEntries([...times].map(([kind, all]) => [kind, percentile(all, 0.5)]));
});

function requestOf(path: string, [name, value]: Proof): Buffer {
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: bench\r\n${name}: ${value}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(webhookBody)}\r\n\r\n${webhookBody}`,
  );
}

/** Changes one character of a proof. */
function change([name, value]: Proof, at: number): Proof {
  const other = value.charAt(at) === '0' ? '1' : '0';
  return [name, value.slice(0, at) + other + value.slice(at + 1)];
}

async function timeOf(socket: Socket, request: Buffer): Promise<number> {
  const began = performance.now();
  socket.write(request);
  await once(socket, 'data');
  return performance.now() - began;
}
