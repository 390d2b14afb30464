/** A server is killed around the commit of a success: the signal about it exists exactly if the success does. */
import { noRules } from '../../src/ledger/rules.ts';
import { expect, test } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { notesJob } from '../support/plugin-program.ts';
import { launch } from '../support/crash/server.ts';

const cases = databases.flatMap((database) =>
  (['settle.before-commit', 'settle.after-commit'] as const).map(
    (probe) => [database, probe] as const,
  ),
);

test.each(cases)(
  'a success on %s whose service is killed at %s has its signal exactly if it was stored',
  async (database, probe) => {
    const schedules = [{ id: 'once', at: '2020-01-01T00:00:00Z' }];
    const place = await makePlace({
      database,
      plugins: {
        worker: { program: notesJob, settings: { schedules, notify_on_complete: true } },
        // Its own end is never reported to itself, although it asks for it.
        hook: { program: notesJob, settings: { notify_on_complete: true } },
      },
      routes: [{ event_type: 'job.succeeded', to: 'hook' }],
      pipelines: [
        { name: 'after', on: 'job.succeeded', steps: [{ id: 'one', uses: 'hook.poll' }] },
      ],
    });
    const victim = launch(place.directory, `${probe}:kill`);
    expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const isCommitted = probe === 'settle.after-commit';
    const ledger = await openLedger(place.config.state, noRules);
    const [worker] = await ledger.jobs.list({ plugin: 'worker', limit: 9 });
    expect(worker?.status === 'succeeded').toBe(isCommitted);
    const left = await ledger.signals.list({ type: 'job.succeeded', limit: 9 });
    expect(left.map(({ jobId }) => jobId)).toEqual(isCommitted ? [worker?.id] : []);
    await ledger.close();

    const server = launch(place.directory);
    await server.ready;
    const after = await openLedger(place.config.state, noRules);
    await eventually('everything is done', async () => {
      const jobs = await after.jobs.list({ limit: 9 });
      const runs = await after.runs.list({ limit: 9 });
      return (
        jobs.length === 3 &&
        runs.length === 1 &&
        [...jobs, ...runs].every(({ status }) => status === 'succeeded')
      );
    });
    expect(await server.stop()).toEqual({ code: 0, signal: null });
    const signals = await after.signals.list({ type: 'job.succeeded', limit: 9 });
    const jobs = await after.jobs.list({ limit: 9 });
    expect(await after.check()).toEqual([]);
    await after.close();
    // The route's job reports its own end without starting another; the pipeline's is a step of a run.
    const routed = jobs.find(({ plugin, runId }) => plugin === 'hook' && runId === null);
    expect(new Set(signals.map(({ jobId }) => jobId))).toEqual(new Set([worker?.id, routed?.id]));
    expect(signals).toHaveLength(2);
    expect(jobs.filter(({ plugin }) => plugin === 'worker')).toHaveLength(1);
  },
);
