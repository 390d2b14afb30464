/**
 * A server is killed at random moments while others deliver to it. DUCTILE_CRASH_KILLS says how often
 * on each database, DUCTILE_CRASH_SEED chooses the moments, DUCTILE_CRASH_MINUTES ends it early.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { eventually, type Database } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { judgeDeliveries, startDeliveries } from './support/deliveries.ts';
import { between, makeRandom } from './support/random.ts';
import type { Server } from './support/server.ts';
import { makeStage } from './support/stage.ts';

const asked = Number(process.env['DUCTILE_CRASH_KILLS'] ?? 0);
const seed = Number(process.env['DUCTILE_CRASH_SEED'] ?? 1);
const minutes = Number(process.env['DUCTILE_CRASH_MINUTES'] ?? Infinity);
/** How long a server goes on after it took something. */
const workMs = [0, 300] as const;
const TIMEOUT_MS_PER_KILL = 10_000;

const campaigns: readonly { database: Database; kills: number }[] = [
  { database: 'sqlite', kills: asked || 5 },
  ...(asked === 0 ? [] : [{ database: 'postgres' as const, kills: asked }]),
];

test.for(campaigns)(
  '$kills kills under a load of deliveries on $database: what was accepted is there, once',
  { timeout: 60_000 + (asked || 5) * TIMEOUT_MS_PER_KILL },
  async ({ database, kills }) => {
    const random = makeRandom(seed);
    const stage = await makeStage(
      database,
      { max_workers: 4 },
      { webhooks: { listen: '127.0.0.1:0' }, plugins: { taker: { program: succeeds } } },
    );
    let server: Server = await stage.start();
    const hook = { title: 'T', id: 'gh', plugin: 'taker', command: 'poll', auth_mode: 'github' };
    const made = await stage.client.post('/webhooks', {
      ...hook,
      rate_limit_per_minute: limits.hookRateMax,
    });
    const load = startDeliveries(made.body['secret'] as string, stage.client, () => server);
    const endAt = performance.now() + minutes * 60_000;
    let done = 0;
    while (done < kills && performance.now() < endAt) {
      await server.ready;
      const before = load.acknowledged;
      await eventually('something was taken', () => Promise.resolve(load.acknowledged > before));
      await sleep(between(random, ...workMs));
      expect(await server.kill()).toMatchObject({ signal: 'SIGKILL' });
      done += 1;
      server = stage.launch();
    }
    await server.ready;
    const history = await load.stop();
    await stage.drain();
    expect(await server.stop()).toEqual({ code: 0, signal: null });
    const { faults, counts } = await stage.withLedger((ledger) =>
      judgeDeliveries(ledger, 'gh', history),
    );
    console.info(`${done} kills on ${database}, seed ${seed}:`, counts);
    expect(faults).toEqual([]);
    expect(counts.acknowledged).toBeGreaterThanOrEqual(done);
  },
);
