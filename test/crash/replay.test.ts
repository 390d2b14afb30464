/** A server that is killed in the middle of a replay: the next one starts exactly what was left. */
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeId } from '../../src/base/ids.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { makeClient } from './support/client.ts';
import { launch } from './support/server.ts';

const timeout = 90_000;
const STEPS = 4;

describe.each(databases)('a server on %s that is killed in a replay', (database) => {
  test.each(['before-commit', 'after-commit'])(
    'at a step, %s: none is left out or started twice',
    { timeout },
    async (moment) => {
      const place = await makePlace({
        database,
        plugins: { mail: { program: succeeds } },
        routes: [{ event_type: 'order.paid', to: 'mail' }],
        service: { reap_after: '300ms' },
      });
      const ledger = await openLedger(place.config.state);
      await ledger.setMeta('paused', '1');
      const total = STEPS * limits.bulkStepJobs;
      await ledger.emit(
        Array.from({ length: total }, () => {
          const id = makeId();
          const data = '{"n":1}';
          const signal = { id, type: 'order.paid', source: 'shop', data, hops: 1 };
          return { signal: { ...signal, correlationId: id }, jobs: [], runs: [] };
        }),
      );
      await ledger.close();
      const victim = launch(place.directory, `enqueue.${moment}:kill:2`);
      const { control } = await victim.ready;
      const body = { type: 'order.paid', force: true };
      await makeClient(() => control)
        .post('/signals/replay', body)
        .catch(() => 'it dies before it answers');
      expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });

      const next = launch(place.directory);
      const ready = await next.ready;
      const client = makeClient(() => ready.control);
      const directive = await eventually('the replay has ended', async () => {
        const { body: found } = await client.get('/directives?type=signal.replay');
        const [one] = found['directives'] as { status: string; attempt: number; result: unknown }[];
        return one?.status === 'completed' && one;
      });
      expect(directive).toMatchObject({ attempt: 2, result: { signals: total, jobs: total } });
      await next.stop();
      const after = await openLedger(place.config.state);
      const jobs = await after.jobs({ plugin: 'mail', limit: 2 * total });
      await after.close();
      expect(jobs).toHaveLength(total);
      expect(new Set(jobs.map(({ sourceEventId }) => sourceEventId)).size).toBe(total);
    },
  );
});
