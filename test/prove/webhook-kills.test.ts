/** A server is killed at random moments while others deliver to it: never 2xx without the job. */
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/base/limits.ts';
import { checkDeliveries, startDeliveries } from '../support/crash/deliveries.ts';
import { between } from '../support/crash/random.ts';
import type { Server } from '../support/crash/server.ts';
import { makeCrashTest } from '../support/crash/crash-test.ts';
import { databases, eventually } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { campaign, type Trial } from './support/campaign.ts';
import type { Figures } from './support/report.ts';

/** The number of kills in a trial, and the maximum number of accepted deliveries before each. */
const short = { kills: 5, takenMax: 1 };
const long = { kills: 40, takenMax: 40 };
const PATIENCE_MS = 60_000;
/** The time from an accepted delivery to the kill. */
const workMs = [0, 300] as const;

campaign(
  'kills under a load of deliveries: what was accepted is there, once',
  { trials: 1, timeoutMs: 600_000 },
  tryDeliveries,
);

async function tryDeliveries({ index, random, isShort }: Trial): Promise<Figures> {
  const { kills, takenMax } = isShort ? short : long;
  const crashTest = await makeCrashTest(
    databases[index % databases.length] ?? 'sqlite',
    { max_workers: 4 },
    { webhooks: { listen: '127.0.0.1:0' }, plugins: { taker: { program: succeeds } } },
  );
  let server: Server = await crashTest.start();
  const hook = { title: 'T', id: 'gh', plugin: 'taker', command: 'poll', auth_mode: 'github' };
  const { body } = await crashTest.client.post('/webhooks', {
    ...hook,
    rate_limit_per_minute: limits.webhookRateMax,
  });
  const load = startDeliveries(body['secret'] as string, crashTest.client, () => server);
  for (let done = 0; done < kills; done += 1) {
    await server.ready;
    const target = load.acknowledged + between(random, 1, takenMax);
    await eventually('something was taken', () => load.acknowledged >= target, PATIENCE_MS);
    await sleep(between(random, ...workMs));
    await server.kill();
    server = crashTest.launch();
  }
  await server.ready;
  const history = await load.stop();
  await crashTest.drain();
  await server.stop();
  const { faults, counts } = await crashTest.withLedger((ledger) =>
    checkDeliveries(ledger, 'gh', history),
  );
  if (faults.length > 0) throw new Error(faults.join('\n'));
  return { kills, ...counts };
}
