import { describe, expect, test } from 'vitest';
import { resetBreakerDirective, systemBreaker } from '../../src/schedule/breaker.operations.ts';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import type { Operation } from '../../src/operation/define.ts';
import { invoke } from '../../src/operation/invoke.ts';
import {
  listSchedulerJobs,
  listSchedulesOperation,
  previewSchedule,
} from '../../src/schedule/operations.ts';
import {
  pauseScheduleDirective,
  resumeScheduleDirective,
} from '../../src/schedule/schedule.directives.ts';
import { systemSelfcheck } from '../../src/insight/selfcheck.operations.ts';
import { explainWhy } from '../../src/insight/why/why.operations.ts';
import { systemHealth } from '../../src/engine/system.operations.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { alwaysFails } from '../support/plugin-program.ts';

async function begin(database: Database) {
  const schedules = [
    { every: '100ms' },
    { id: 'nightly', cron: '30 2 * * *', timezone: 'Europe/Berlin' },
    { id: 'once', at: '2040-01-01T00:00:00Z' },
  ];
  const settings = { schedules, circuit_breaker: { threshold: 1 }, retry: { max_attempts: 1 } };
  const place = await makePlace({
    database,
    plugins: { worker: { program: alwaysFails, settings } },
    // Until then no host takes rows for its own that it did not make.
    service: { tick_interval: '100ms', reap_after: '10m' },
  });
  const { engine, ledger, records } = await place.start();
  const context: Context = { engine, principal: ownerOf('cli:test'), submittedBy: 'cli' };
  const ask = (operation: Operation, input: object = {}) => invoke(operation, context, input);
  return { ask, ledger, place, records };
}

describe.each(databases)('schedules as operators see them on %s', (database) => {
  test('lists, previews, pauses and resumes', async () => {
    const { ask } = await begin(database);
    const listed = await eventually('they are there', async () => {
      const found = await ask(listSchedulesOperation);
      return (found['schedules'] as unknown[]).length === 3 ? found : undefined;
    });
    expect(listed).toMatchObject({
      schedules: [
        { schedule_id: 'default', mode: 'every', timing: '100ms', status: 'active' },
        { schedule_id: 'nightly', mode: 'cron', timezone: 'Europe/Berlin', last_job_id: null },
        { schedule_id: 'once', mode: 'at', next_run_at: '2040-01-01T00:00:00.000Z' },
      ],
    });
    expect(await ask(listSchedulerJobs)).toMatchObject({ jobs: [{ plugin: 'worker' }, {}, {}] });
    const nightly = { plugin: 'worker', schedule_id: 'nightly' };
    expect(
      await ask(pauseScheduleDirective.operation, { ...nightly, dry_run: true }),
    ).toMatchObject({
      plan: ['worker/nightly will not fire until you resume it. Its queued jobs will still run.'],
    });
    expect(await ask(pauseScheduleDirective.operation, nightly)).toMatchObject({ paused: true });
    const range = { from: '2039-12-31T00:00:00Z', to: '2040-01-01T12:00:00Z', plugin: 'worker' };
    const { times } = (await ask(previewSchedule, range)) as { times: { schedule_id: string }[] };
    expect(times.filter(({ schedule_id: id }) => id !== 'default')).toMatchObject([
      { at: '2039-12-31T01:30:00.000Z', count: 2, fires: false, reason: 'paused_manual' },
      { at: '2040-01-01T00:00:00.000Z', count: 1, fires: true, reason: null },
    ]);
    const after = { from: '2041-01-01T00:00:00Z', to: '2041-01-02T00:00:00Z' };
    const later = (await ask(previewSchedule, after)) as { times: { schedule_id: string }[] };
    expect(later.times.some(({ schedule_id: id }) => id === 'once')).toBe(false);
    expect(await ask(resumeScheduleDirective.operation, nightly)).toMatchObject({ paused: false });
    expect(await ask(listSchedulesOperation, { plugin: 'worker' })).toMatchObject({
      schedules: [{}, { status: 'active', reason: null }, {}],
    });
    await expect(ask(previewSchedule, { from: range.to, to: range.from })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: 'to',
    });
    await expect(
      ask(pauseScheduleDirective.operation, { plugin: 'worker', schedule_id: 'nigthly' }),
    ).rejects.toMatchObject({
      code: 'SCHEDULE_NOT_FOUND',
      hint: expect.stringContaining('nightly'),
    });
  });

  test('previews a changed definition as it will be: paused still, and done still', async () => {
    const { ask, place } = await begin(database);
    await eventually('they are there', async () => {
      const found = await ask(listSchedulesOperation);
      return (found['schedules'] as unknown[]).length === 3;
    });
    await ask(pauseScheduleDirective.operation, { plugin: 'worker', schedule_id: 'nightly' });
    await place.sql(
      `update schedules set generation = 'older', status = 'exhausted', next_due_at = null,
        next_slot_at = null, reason = 'one_shot_exhausted' where schedule_id = 'once'`,
    );
    await place.sql(`update schedules set generation = 'older' where schedule_id = 'nightly'`);
    const range = { from: '2039-12-31T00:00:00Z', to: '2040-01-01T12:00:00Z' };
    const preview = async () => {
      const { times } = (await ask(previewSchedule, range)) as { times: { schedule_id: string }[] };
      return times.filter(({ schedule_id: id }) => id !== 'default');
    };
    expect(await preview()).toMatchObject([
      { schedule_id: 'nightly', fires: false, reason: 'paused_manual' },
      { schedule_id: 'once', fires: false, reason: 'one_shot_exhausted' },
    ]);
    await place.sql(`update schedules set timing = 'another' where schedule_id = 'once'`);
    expect(await preview()).toMatchObject([{}, { schedule_id: 'once', fires: true }]);
  });

  test('reports that a host which was loaded later defines one otherwise', async () => {
    const { ask, place, records } = await begin(database);
    const reasons = async (): Promise<string> => {
      const { schedules } = (await ask(listSchedulesOperation)) as {
        schedules: { reason: string }[];
      };
      return schedules.map(({ reason }) => reason ?? '-').join(' ');
    };
    await eventually('they are there', async () => (await reasons()) === '- - -');
    await place.sql(
      `update schedules set generation = 'other', next_due_at = ? where schedule_id = 'nightly'`,
      '2026-01-01T00:00:00.000Z',
    );
    expect(await reasons()).toBe('- other_definition -');
    const { checks } = (await ask(systemSelfcheck)) as { checks: unknown[] };
    expect(checks).toContainEqual({
      name: 'schedules',
      status: 'warn',
      detail: 'Another host defines the schedule worker/nightly differently, and loaded it later.',
    });
    const warnings = () => records.filter(({ level, schedule }) => level === 'warn' && schedule);
    await eventually('it is logged', () => warnings().length > 0);
    expect(warnings()).toMatchObject([{ plugin: 'worker', schedule: 'nightly' }]);
  });

  test('shows an open breaker, and closes it', async () => {
    const { ask } = await begin(database);
    await eventually(
      'it is open',
      async () => (await ask(systemHealth))['plugins_circuit_open'] === 1,
    );
    expect(await ask(systemBreaker, { plugin: 'worker' })).toMatchObject({
      breakers: [{ plugin: 'worker', command: 'poll', state: 'open', failure_count: 1 }],
      transitions: [{ from_state: 'closed', to_state: 'open', reason: 'failure_threshold' }],
    });
    expect(await ask(resetBreakerDirective.operation, { plugin: 'worker' })).toMatchObject({
      reset: ['worker/poll'],
    });
    const { transitions } = (await ask(systemBreaker)) as { transitions: { reason: string }[] };
    expect(transitions.map(({ reason }) => reason)).toContain('manual_reset');
    await expect(ask(resetBreakerDirective.operation, { plugin: 'nobody' })).rejects.toMatchObject({
      code: 'PLUGIN_NOT_FOUND',
    });
  });

  test('a schedule behind an open breaker shows its next real start, and why', async () => {
    const settings = {
      schedules: [{ every: '30s' }],
      circuit_breaker: { threshold: 1, reset_after: '10m' },
      retry: { max_attempts: 1 },
    };
    const place = await makePlace({
      database,
      plugins: { worker: { program: alwaysFails, settings } },
      service: { tick_interval: '100ms', reap_after: '10m' },
    });
    const { engine, ledger } = await place.start();
    const context: Context = { engine, principal: ownerOf('cli:test'), submittedBy: 'cli' };
    await eventually('the breaker is open', async () => {
      const [breaker] = await ledger.breakers.list({});
      return breaker?.state === 'open';
    });
    const [breaker] = await ledger.breakers.list({});
    const allowedAt = new Date(Date.parse(breaker?.openedAt ?? '') + 600_000).toISOString();
    const { schedules } = (await invoke(listSchedulesOperation, context, {})) as {
      schedules: { next_run_at: string; next_start_at: string }[];
    };
    expect(schedules).toMatchObject([
      {
        held_by: {
          kind: 'breaker',
          message: 'The breaker of worker poll is open: its schedules start no jobs',
          commands: ['ductile breaker reset worker --command poll'],
        },
      },
    ]);
    const [row] = schedules;
    expect(row?.next_run_at.localeCompare(allowedAt)).toBeLessThan(0);
    expect(row?.next_start_at.localeCompare(allowedAt)).toBeGreaterThanOrEqual(0);
    const why = await invoke(explainWhy, context, { id: 'worker/default' });
    expect(why).toMatchObject({ moves_at: row?.next_start_at });
    await invoke(pauseScheduleDirective.operation, context, { plugin: 'worker' });
    expect(await invoke(listSchedulesOperation, context, {})).toMatchObject({
      schedules: [
        {
          next_start_at: null,
          held_by: {
            kind: 'status',
            message: 'The schedule worker/default is paused: it starts no jobs',
          },
        },
      ],
    });
  });
});
