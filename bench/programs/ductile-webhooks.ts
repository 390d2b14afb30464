/** The listener of webhooks over an engine that runs no jobs; with `none`, nothing is kept of what comes. */
import { createHmac } from 'node:crypto';
import { z } from 'zod';
import { limits } from '../../src/base/limits.ts';
import { listenHooks } from '../../src/http/control.ts';
import { noNews } from '../../src/ledger/runs.ts';
import { textIn } from '../../src/operations/direct.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';
import { errorLog, openWithoutProcesses, placeShape } from './ductile.ts';
import { measure } from './harness.ts';

const shape = placeShape.extend({ connections: z.number(), store: z.enum(['ledger', 'none']) });
const BODY_BYTES = 1024;

await measure(shape, async ({ config, plugin, connections, store }) => {
  const engine = await openWithoutProcesses(config);
  const made = await engine.direct({
    type: 'webhook.create',
    actor: 'bench',
    params: {
      id: 'bench',
      settings: {
        title: 'Bench',
        plugin,
        auth_mode: 'hmac',
        hmac_header: 'X-Signature',
        rate_limit_per_minute: limits.hookRateMax,
      },
    },
  });
  if (store === 'none') {
    engine.ledger.receive = (drafts) =>
      Promise.resolve({
        told: drafts.map(({ emission }) => ({ signalId: emission.signal.id, isNew: true })),
        news: noNews,
      });
  }
  const listener = await listenHooks({ host: '127.0.0.1', port: 0 }, engine, errorLog());
  const body = JSON.stringify({ text: 'x'.repeat(BODY_BYTES - '{"text":""}'.length) });
  const secret = textIn(made.result ?? {}, 'secret');
  const mac = createHmac('sha256', secret).update(body).digest('hex');
  const measures = await runNode('http-load', {
    port: Number(listener.address.split(':')[1]),
    connections,
    warmUpSeconds: settings.warmUpSeconds,
    seconds: settings.httpSeconds,
    path: '/hooks/bench',
    proof: ['x-signature', `sha256=${mac}`],
    body,
  });
  await listener.close();
  return measures;
});
