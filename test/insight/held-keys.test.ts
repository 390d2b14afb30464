/** The check of concurrency keys: a run that keeps others waiting for long is found, with the way out. */
import { expect, test } from 'vitest';
import { fromTimestamp, toTimestamp } from '../../src/base/clock.ts';
import { keyHeld } from '../../src/insight/findings/runs.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { startRun } from '../support/runs.ts';

test.each(databases)(
  'a run that holds a concurrency key for long is found on %s',
  async (database) => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: succeeds } },
      pipelines: [
        {
          name: 'deploy',
          concurrency: { key: '{payload.site}', limit: 1 },
          steps: [{ id: 'news', wait: { signal: 'deploy.done' } }],
        },
      ],
    });
    const instance = await place.start();
    const { ledger, engine } = instance;
    const findAfter = async (minutes: number) => {
      const now = toTimestamp(fromTimestamp(await ledger.now()) + minutes * 60_000);
      const { config, catalog } = engine;
      return await keyHeld.check({ ledger, config, catalog, now, keyIds: undefined, isRoot: true });
    };
    const holder = await startRun(instance, 'deploy', { site: 'a' });
    await eventually('it runs', async () => (await ledger.runs.find(holder))?.status === 'running');
    // A run that keeps no other one waiting may take its time.
    expect(await findAfter(600)).toEqual([]);
    const waiting = await startRun(instance, 'deploy', { site: 'a' });
    expect(await findAfter(1)).toEqual([]);
    const [found] = await findAfter(600);
    expect(found).toMatchObject({
      kind: 'key_held',
      severity: 'warning',
      why: holder,
      count: 1,
      commands: [`ductile run cancel ${holder}`],
      detail: { run_id: holder, pipeline: 'deploy', waiting_run_ids: [waiting] },
    });
    expect(found?.message).toContain('for 10h');
  },
);
