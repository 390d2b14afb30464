import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import type { Job } from '../../src/job/job.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { ScheduleRow } from '../../src/schedule/types.ts';
import { isAlive } from '../support/hosts.ts';
import {
  databases,
  eventually,
  makePlace,
  type Database,
  type TestPlace,
} from '../support/instance.ts';
import {
  alwaysFails,
  notesJob,
  python,
  succeeds,
  waitsForGate,
} from '../support/plugin-program.ts';

const actor = 'cli:test';

function scheduled(
  database: Database,
  program: string,
  schedules: readonly JsonObject[],
  settings: JsonObject = {},
): Promise<TestPlace> {
  const plugins = { worker: { program, settings: { schedules: [...schedules], ...settings } } };
  return makePlace({ database, plugins });
}

async function row(ledger: Ledger, scheduleId = 'default'): Promise<ScheduleRow | undefined> {
  return (await ledger.schedules.list({ plugin: 'worker', scheduleId, limit: 1 }))[0];
}

function scheduledJobs(ledger: Ledger): Promise<Job[]> {
  return ledger.jobs.list({ plugin: 'worker', order: 'oldest', limit: 1000 });
}

function slotNumber({ scheduleSlot }: Job): number {
  return Number(scheduleSlot?.split(':').at(-1));
}

describe.each(databases)('the scheduler on %s', (database) => {
  test('fires again and again, each time after the last completion', async () => {
    const place = await scheduled(database, succeeds, [{ every: '100ms', payload: { a: 1 } }]);
    const { ledger } = await place.start();
    const jobs = await eventually('four have ended', async () => {
      const found = await scheduledJobs(ledger);
      return found.filter(({ status }) => status === 'succeeded').length >= 4 ? found : undefined;
    });
    for (const [index, job] of jobs.entries()) {
      expect(job).toMatchObject({
        submittedBy: 'scheduler',
        actor: 'schedule:worker/default',
        payload: '{"a":1}',
        command: 'poll',
      });
      const before = jobs[index - 1];
      if (before === undefined) continue;
      // A slot passes without a job while the last one is open, which on a busy machine it may be.
      expect(slotNumber(job)).toBeGreaterThan(slotNumber(before));
      const waited = Date.parse(job.createdAt) - Date.parse(before.completedAt ?? '');
      expect(waited).toBeGreaterThanOrEqual(100);
    }
  });

  test('does not fire again while a job of the schedule is open', async () => {
    const place = await scheduled(database, waitsForGate, [{ every: '100ms' }]);
    const { ledger } = await place.start();
    const skipped = await eventually('a time has passed', async () => {
      const found = await row(ledger);
      return (found?.seq ?? 0) > 2 ? found : undefined;
    });
    expect(skipped.lastSkipReason).toBe('already_running');
    expect(await scheduledJobs(ledger)).toHaveLength(1);
  });

  test('if_running: cancel stops the process that runs', async () => {
    const place = await scheduled(database, waitsForGate, [
      { every: '300ms', if_running: 'cancel' },
    ]);
    const { ledger } = await place.start();
    const first = await eventually('it has begun', async () => (await place.notes())[0]);
    const pid = Number(first.split(' ').at(-1));
    const [job] = await eventually('it was cancelled', async () => {
      const found = await scheduledJobs(ledger);
      return found[0]?.status === 'cancelled' && found.length > 1 ? found : undefined;
    });
    expect(job?.reason).toBe('cancelled');
    expect(isAlive(pid)).toBe(false);
  });

  test('two schedules of one command do not disturb each other', async () => {
    const place = await scheduled(
      database,
      python('wait_for("slow") if payload.get("slow") else None\nok()'),
      [
        { id: 'slow', every: '100ms', payload: { slow: true } },
        { id: 'quick', every: '100ms' },
      ],
    );
    const { ledger } = await place.start();
    await eventually(
      'the quick one goes on',
      async () => ((await row(ledger, 'quick'))?.seq ?? 0) > 2,
    );
    const jobs = await scheduledJobs(ledger);
    expect(jobs.filter(({ scheduleId }) => scheduleId === 'slow')).toHaveLength(1);
  });

  test('a one-time schedule fires once, over restarts', async () => {
    const place = await scheduled(database, notesJob, [
      { id: 'after', after: '150ms' },
      { id: 'at', at: '2020-01-01T00:00:00Z' },
      { id: 'every', every: '1h' },
    ]);
    for (let start = 0; start < 2; start += 1) {
      const { ledger, close } = await place.start();
      await eventually(
        'both are exhausted',
        async () =>
          (await row(ledger, 'after'))?.status === 'exhausted' &&
          (await row(ledger, 'at'))?.status === 'exhausted' &&
          (await row(ledger, 'every'))?.lastJobStatus === 'succeeded',
      );
      expect(await scheduledJobs(ledger)).toHaveLength(3);
      await close();
    }
  });

  test('a breaker opens, holds only the scheduler back, and is reset by hand', async () => {
    const place = await scheduled(database, alwaysFails, [{ every: '100ms' }], {
      circuit_breaker: { threshold: 2, reset_after: '1h' },
      retry: { max_attempts: 1 },
    });
    const { ledger, engine, run } = await place.start();
    await eventually(
      'it holds back',
      async () => (await row(ledger))?.lastSkipReason === 'circuit_open',
    );
    expect(await scheduledJobs(ledger)).toHaveLength(2);
    expect((await run('worker', {}, { command: 'poll' })).status).not.toBe('queued');
    expect(await ledger.breakers.list({})).toMatchObject([{ state: 'open', failureCount: 2 }]);
    const params = { plugin: 'worker' };
    expect(
      await engine.direct({ type: 'breaker.reset', params, actor, dryRun: true }),
    ).toMatchObject({
      plan: [expect.stringContaining('open after 2 failures'), 'Earlier failures no longer count.'],
    });
    expect(await engine.direct({ type: 'breaker.reset', params, actor })).toMatchObject({
      status: 'completed',
      result: { reset: ['worker/poll'] },
    });
    await eventually('it fires again', async () => (await scheduledJobs(ledger)).length > 3);
    const transitions = await ledger.breakers.listTransitions({ plugin: 'worker', limit: 99 });
    expect(transitions.map(({ reason }) => reason)).toContain('manual_reset');
    expect(await ledger.signals.list({ type: 'breaker.closed', limit: 9 })).toHaveLength(1);
  });

  test('a pause holds until it is resumed, and nothing is made up for', async () => {
    const place = await scheduled(database, succeeds, [{ every: '100ms', catch_up: 'run_all' }]);
    const { ledger, engine } = await place.start();
    await eventually('it fires', async () => (await scheduledJobs(ledger)).length > 1);
    const params = { plugin: 'worker', schedule_id: 'default' };
    await engine.direct({ type: 'schedule.pause', params, actor });
    const paused = await row(ledger);
    expect(paused).toMatchObject({ status: 'paused', reason: 'paused_manual' });
    await place.sql(`update schedules set next_due_at = ?`, '2020-01-01T00:00:00.000Z');
    const before = (await scheduledJobs(ledger)).length;
    await engine.direct({ type: 'schedule.resume', params, actor });
    const jobs = await eventually('it fires again', async () => {
      const found = await scheduledJobs(ledger);
      return found.length > before ? found : undefined;
    });
    expect(jobs.length).toBeLessThan(before + 10);
    await expect(
      engine.direct({ type: 'schedule.pause', params: { ...params, schedule_id: 'x' }, actor }),
    ).rejects.toMatchObject({ code: 'SCHEDULE_NOT_FOUND' });
  });

  test("a schedule that can't fire says why, and a removed schedule is retired", async () => {
    const place = await scheduled(database, succeeds, [
      { id: 'wrong', every: '1h', command: 'dance' },
      { id: 'gone', every: '1h' },
    ]);
    const first = await place.start();
    await eventually('both are there', async () => (await row(first.ledger, 'gone')) !== undefined);
    expect(await row(first.ledger, 'wrong')).toMatchObject({
      status: 'invalid',
      reason: 'command_not_supported: dance',
      nextDueAt: null,
    });
    await first.close();
    const settings = { schedules: [{ id: 'wrong', every: '1h' }] };
    const changed = await place.vary({ plugins: { worker: { program: succeeds, settings } } });
    const { ledger } = await changed.start();
    await eventually(
      'it is retired',
      async () => (await row(ledger, 'gone'))?.status === 'retired',
    );
    expect(await row(ledger, 'wrong')).toMatchObject({ status: 'active', reason: null });
  });

  test('a plugin that is being set up is polled as soon as it is', async () => {
    const program = python('wait_for("init") if command == "init" else None\nok()');
    const settings = { schedules: [{ every: '1h' }] };
    const commands = '{poll: {}, init: {}}';
    const place = await makePlace({
      database,
      plugins: { worker: { program, settings, commands } },
    });
    const { ledger } = await place.start();
    await eventually(
      'it waits',
      async () => (await row(ledger))?.lastSkipReason === 'plugin_unhealthy',
    );
    expect((await row(ledger))?.seq).toBe(0);
    await place.openGate('init');
    await eventually(
      'it is polled',
      async () => (await row(ledger))?.lastJobStatus === 'succeeded',
    );
  });

  test('a reload brings new schedules and retires old ones', async () => {
    const place = await scheduled(database, succeeds, [{ id: 'old', every: '1h' }]);
    const { ledger, engine } = await place.start();
    await eventually('it fired', async () => (await row(ledger, 'old'))?.seq === 1);
    const settings = { schedules: [{ id: 'new', every: '1h' }] };
    await place.vary({ plugins: { worker: { program: succeeds, settings } } });
    await engine.direct({ type: 'config.reload', params: {}, actor });
    await eventually('the new one fired', async () => (await row(ledger, 'new'))?.seq === 1);
    expect((await row(ledger, 'old'))?.status).toBe('retired');
  });

  test('a plugin that is switched off is not fired', async () => {
    const place = await scheduled(database, succeeds, [{ every: '100ms' }]);
    const { ledger, engine } = await place.start();
    await eventually('it fires', async () => (await scheduledJobs(ledger)).length > 0);
    await engine.direct({ type: 'plugin.disable', params: { plugin: 'worker' }, actor });
    await eventually(
      'it is passed over',
      async () => (await row(ledger))?.lastSkipReason === 'plugin_disabled',
    );
  });
});

test('two hosts fire every slot once', async () => {
  const ids = ['a', 'b', 'c', 'd', 'e'];
  const place = await scheduled(
    'postgres',
    succeeds,
    ids.map((id) => ({ id, every: '100ms' })),
  );
  const [{ ledger }] = await Promise.all([place.start(), place.start()]);
  const jobs = await eventually('many have fired', async () => {
    const found = await scheduledJobs(ledger);
    return found.length >= 60 ? found : undefined;
  });
  for (const [id, own] of Map.groupBy(jobs, ({ scheduleId }) => scheduleId)) {
    const slots = own.map(({ scheduleSlot }) => Number(scheduleSlot?.split(':')[1]));
    expect(new Set(slots).size, String(id)).toBe(slots.length);
    const early = own.filter(
      ({ createdAt }, index) => createdAt < (own[index - 1]?.completedAt ?? ''),
    );
    expect(early).toEqual([]);
  }
});

describe('when hosts define a schedule otherwise', () => {
  const service = { tick_interval: '100ms', heartbeat_interval: '100ms', reap_after: '300ms' };
  const worker = (schedules: readonly JsonObject[]) => ({
    worker: { program: succeeds, settings: { schedules: [...schedules] } },
  });

  test('another host fires it when the last loaded one is gone', async () => {
    const schedules = [
      { id: 'both', every: '100ms' },
      { id: 'mine', every: '100ms' },
    ];
    const place = await makePlace({ database: 'postgres', plugins: worker(schedules), service });
    const { ledger } = await place.start();
    const count = async (id: string): Promise<number> =>
      (await scheduledJobs(ledger)).filter(({ scheduleId }) => scheduleId === id).length;
    await eventually('it fires', async () => (await count('mine')) > 1);
    const other = [
      { id: 'both', every: '1h' },
      { id: 'new', every: '1h' },
    ];
    const later = await (await place.vary({ plugins: worker(other) })).start();
    await eventually(
      'the later one decides',
      async () => (await row(ledger, 'both'))?.timing === '1h',
    );
    await eventually(
      'that is all of it',
      async () => (await row(ledger, 'mine'))?.status === 'retired',
    );
    await later.close();
    const before = await count('both');
    await eventually('the first one does again', async () => (await count('both')) > before + 1);
    expect((await row(ledger, 'both'))?.timing).toBe('100ms');
    expect((await row(ledger, 'mine'))?.status).toBe('active');
    await eventually('and for good', async () => (await row(ledger, 'new'))?.status === 'retired');
  });

  test('the host that was loaded last decides while all of them live', async () => {
    const place = await makePlace({
      database: 'postgres',
      plugins: worker([{ every: '1h' }]),
      // A host that is only slow must not count as dead here.
      service: { ...service, reap_after: '30s' },
    });
    const first = await place.start();
    const varied = await place.vary({ plugins: worker([{ every: '100ms' }]) });
    const second = await varied.start();
    await eventually(
      'both hosts looked',
      async () => (await scheduledJobs(first.ledger)).length > 9,
    );
    expect((await row(second.ledger))?.timing).toBe('100ms');
  });
});
