/** A server is killed around the commit that fires a schedule: each slot has one job, done once. */
import { noRules } from '../../src/ledger/rules.ts';
import { expect, test } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { notesJob } from '../support/plugin-program.ts';
import { launch } from '../support/crash/server.ts';

const ids = ['now', 'once', 'later'];

const cases = databases.flatMap((database) =>
  (['fire.before-commit', 'fire.after-commit'] as const).map((probe) => [database, probe] as const),
);

test.each(cases)(
  'a slot on %s whose service is killed at %s fires once',
  async (database, probe) => {
    const schedules = [
      { id: 'now', every: '1h' },
      { id: 'once', at: '2020-01-01T00:00:00Z' },
      { id: 'later', after: '100ms' },
    ];
    const plugins = { worker: { program: notesJob, settings: { schedules } } };
    const place = await makePlace({ database, plugins });
    const victim = launch(place.directory, `${probe}:kill`);
    expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const ledger = await openLedger(place.config.state, noRules);
    const left = await ledger.jobs.list({ limit: 10 });
    await ledger.close();
    expect(left.length > 0).toBe(probe === 'fire.after-commit');
    expect(left.filter(({ status }) => status !== 'queued')).toEqual([]);
    expect(await place.notes()).toEqual([]);

    const server = launch(place.directory);
    await server.ready;
    const notes = await eventually('all are done', async () => {
      const found = await place.notes();
      return found.length >= ids.length ? found : undefined;
    });
    expect(await server.stop()).toEqual({ code: 0, signal: null });
    const after = await openLedger(place.config.state, noRules);
    const jobs = await after.jobs.list({ limit: 10 });
    expect(await after.check()).toEqual([]);
    await after.close();
    expect(jobs.map(({ scheduleId }) => scheduleId ?? '').sort()).toEqual(ids.toSorted());
    expect(jobs.every(({ status }) => status === 'succeeded')).toBe(true);
    expect(notes.sort()).toEqual(jobs.map(({ id }) => id).sort());
    // A job that was fired before the crash is the very job that was done.
    for (const { id } of left) expect(notes).toContain(id);
  },
);
