/** A server that is killed in the middle of a bulk retry or cancel: the result counts every job. */
import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeId } from '../../src/base/ids.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { makeClient } from '../support/crash/client.ts';
import { launch } from '../support/crash/server.ts';

const TOTAL = 4 * limits.bulkStepJobs;

async function makeQueued(database: Database) {
  const place = await makePlace({
    database,
    plugins: { mail: { program: succeeds } },
    service: { reap_after: '300ms' },
  });
  const ledger = await openLedger(place.config.state, noRules);
  await ledger.meta.write('paused', '1');
  const ids = Array.from({ length: TOTAL }, () => makeId());
  const draft = { plugin: 'mail', command: 'poll', payload: '{}', actor: 'test' } as const;
  await ledger.jobs.enqueue({
    jobs: ids.map((id) => ({ ...draft, id, submittedBy: 'api', maxAttempts: 1 })),
  });
  return { place, ledger, ids };
}

describe.each(databases)('a server on %s that is killed in a bulk retry', (database) => {
  test.each(['before-commit', 'after-commit'])(
    'at a step, %s: the result counts all jobs, within the limit',
    async (moment) => {
      const { place, ledger, ids } = await makeQueued(database);
      for (let at = 0; at < TOTAL; at += limits.bulkStepJobs) {
        await ledger.jobs.cancelMany(ids.slice(at, at + limits.bulkStepJobs));
      }
      await ledger.close();
      const victim = launch(place.directory, `enqueue.${moment}:kill:2`);
      const { control } = await victim.ready;
      const limit = TOTAL - 50;
      await makeClient(() => control)
        .post('/jobs/retry', { plugin: 'mail', status: ['cancelled'], limit })
        .catch(() => 'it dies before it responds');
      expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
      const next = launch(place.directory);
      const ready = await next.ready;
      const client = makeClient(() => ready.control);
      const directive = await eventually('the retry has ended', async () => {
        const { body } = await client.get('/directives?type=job.retry');
        const [one] = body['directives'] as { status: string; result: unknown }[];
        return one?.status === 'completed' && one;
      });
      expect(directive.result).toEqual({ jobs: limit, queued: limit });
      await next.stop();
      const after = await openLedger(place.config.state, noRules);
      const queued = await after.jobs.list({
        plugin: 'mail',
        status: ['queued'],
        limit: 2 * TOTAL,
      });
      await after.close();
      expect(queued).toHaveLength(limit);
      expect(new Set(queued.map(({ retryOf }) => retryOf)).size).toBe(limit);
    },
  );
});
