/** A pause and a disabled plugin bind every claim, whatever the claiming process has heard. */
import { switchPause, switchPlugin } from '../../src/job/plugin-state.sql.ts';
import { describe, expect, test } from 'vitest';
import type { DirectiveWork } from '../../src/ledger/directive-work.ts';
import { openMeeting } from '../support/ledger/barrier.ts';
import { databases, openBench, range } from '../support/ledger/bench.ts';
import {
  beat,
  claimable,
  claimAs,
  draft,
  pausing,
  request,
  succeed,
} from '../support/ledger/drafts.ts';

const resuming: DirectiveWork = (tx) => switchPause(tx, false);

describe.each(databases)('a claim on %s', (kind) => {
  test('finds nothing once the ledger is paused, and everything after it is resumed', async () => {
    const { ledger, open } = await openBench(kind);
    const other = kind === 'postgres' ? await open() : ledger;
    await ledger.jobs.enqueue({ jobs: range(3).map(() => draft()) });
    await ledger.directives.create(pausing());
    expect(await claimAs(other, 'p2')).toEqual([]);
    await ledger.directives.create(pausing({ type: 'system.resume' }, resuming));
    expect(await claimAs(other, 'p2')).toHaveLength(3);
  });

  test('settles what ends during a pause, and takes nothing in exchange', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(3).map(() => draft()) });
    const [job] = await claimAs(ledger, 'p1', { slots: 1 });
    if (job === undefined) throw new Error('nothing was claimed');
    await ledger.directives.create(pausing());
    const { verdicts, claimed } = await ledger.jobs.settle([succeed(job)], request('p1'));
    expect(verdicts.get(job.id)).toBe('settled');
    expect(claimed).toEqual([]);
  });

  test('leaves the jobs of a disabled plugin, and takes those of others', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft(), draft({ plugin: 'two' }), draft()] });
    const disable = (enabled: boolean) =>
      pausing(
        { type: enabled ? 'plugin.enable' : 'plugin.disable', target: 'plugin:echo' },
        (tx, actor) => switchPlugin(tx, { plugin: 'echo', enabled }, actor),
      );
    await ledger.directives.create(disable(false));
    const plugins = [claimable('echo'), claimable('two')];
    const claimed = await claimAs(ledger, 'p1', { plugins });
    expect(claimed.map(({ plugin }) => plugin)).toEqual(['two']);
    await ledger.directives.create(disable(true));
    expect(await claimAs(ledger, 'p1', { plugins })).toHaveLength(2);
  });
});

describe('a pause beside a claim of another host', () => {
  test('a claim that comes after the pause has waited for it finds nothing', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await ledger.jobs.enqueue({ jobs: range(3).map(() => draft()) });
    await other.processes.heartbeat(beat('p2'));
    await barrier.holdClaims();
    const pausingNow = ledger.directives.create(pausing());
    await barrier.untilWaiting(1);
    const claiming = other.jobs.claim(request('p2'));
    await barrier.untilWaiting(2);
    await barrier.lift();
    await pausingNow;
    expect(await claiming).toEqual([]);
  });

  test('a pause is recorded only after the claim in progress is committed', async () => {
    const { ledger, other, barrier, sql } = await openMeeting();
    await ledger.jobs.enqueue({ jobs: range(3).map(() => draft()) });
    await other.processes.heartbeat(beat('p2'));
    // Holds the claim between its write and its commit.
    await sql(`create function stop_here() returns trigger language plpgsql as
      'begin perform pg_advisory_xact_lock(7); return null; end'`);
    await sql(`create trigger stop_here after update of claim_token on job_queue
      for each statement execute function stop_here()`);
    await barrier.hold('select pg_advisory_xact_lock(7)');
    const claiming = other.jobs.claim(request('p2'));
    await barrier.untilWaiting(1);
    const pausingNow = ledger.directives.create(pausing());
    await barrier.untilWaiting(2);
    await barrier.lift();
    expect(await claiming).toHaveLength(3);
    const { directive } = await pausingNow;
    const started = (await ledger.jobs.list({ status: ['running'], limit: 10 })).map(
      ({ startedAt }) => startedAt ?? '~',
    );
    expect(started.every((at) => at <= (directive.completedAt ?? ''))).toBe(true);
  });
});
