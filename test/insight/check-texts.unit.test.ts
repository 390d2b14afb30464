/** The pure parts of the checks: what they make of rows. */
import { describe, expect, test } from 'vitest';
import { groupCrashes } from '../../src/insight/findings/jobs.ts';
import { listMissingVariables } from '../../src/insight/findings/variables.ts';
import { listWatches } from '../../src/insight/findings/installations.ts';
import { callRefused, isTooWide, workSuppressed } from '../../src/insight/findings/observations.ts';
import {
  isAlwaysSkipped,
  neverFires,
  scheduleAlwaysSkipped,
  scheduleNeverFires,
} from '../../src/insight/findings/schedules.ts';
import type { CheckContext } from '../../src/insight/define-finding.service.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import type { Observation } from '../../src/insight/types.ts';
import type { ScheduleRow } from '../../src/schedule/types.ts';

const at = '2030-01-10T12:00:00.000Z';
const earlier = '2030-01-10T11:30:00.000Z';
const longAgo = '2030-01-01T00:00:00.000Z';

describe('crashes', () => {
  const crash = (jobId: string, more: Partial<Attempt> = {}): Attempt =>
    ({ jobId, cause: 'engine_crash', completedAt: at, ...more }) as Attempt;

  test('are grouped by job, without old ones and without crashes of the plugin itself', () => {
    const groups = groupCrashes(
      [
        crash('a'),
        crash('b'),
        crash('b', { cause: 'spawner_died' }),
        crash('b', { completedAt: longAgo }),
        crash('a', { cause: 'signal' }),
      ],
      earlier,
    );
    expect(groups.map(({ jobId, crashes }) => [jobId, crashes.length])).toEqual([
      ['b', 2],
      ['a', 1],
    ]);
  });
});

describe('missing variables', () => {
  test.each([
    ["KeyError: 'API_TOKEN'", ['API_TOKEN']],
    ['run: line 3: API_TOKEN: unbound variable', ['API_TOKEN']],
    ['./run: 2: API_TOKEN: parameter not set', ['API_TOKEN']],
    ['the environment variable API_TOKEN is required', ['API_TOKEN']],
    ['API_TOKEN is not set', ['API_TOKEN']],
    ['Error: SMTP_HOST must be set', ['SMTP_HOST']],
    ['missing required API_TOKEN', ['API_TOKEN']],
    ['process.env.API_TOKEN is undefined', ['API_TOKEN']],
    ['set AWS_PROFILE first', ['AWS_PROFILE']],
    ['API_TOKEN is set', []],
    ['HTTP 404 for GET /x', []],
    ['connection refused by the host', []],
    ['ERROR: it was not found', []],
    ['the file README is missing a line', []],
  ])('in %j are %j', (text, names) => {
    expect(listMissingVariables(text)).toEqual(names);
  });
});

describe('a schedule', () => {
  const row = (more: Partial<ScheduleRow>): ScheduleRow => ({
    plugin: 'feed',
    scheduleId: 'default',
    command: 'poll',
    mode: 'cron',
    timing: '0 3 * * *',
    timezone: 'UTC',
    generation: 'g',
    seq: 1,
    status: 'active',
    reason: null,
    nextSlotAt: at,
    nextDueAt: at,
    firstSeenAt: longAgo,
    lastFiredAt: null,
    lastJobId: null,
    lastJobStatus: null,
    lastSkippedAt: null,
    lastSkipReason: null,
    skippedInRow: 0,
    ...more,
  });

  test('with a due time ahead, or that has fired, is fine', () => {
    expect(neverFires(row({}))).toBe(false);
    expect(neverFires(row({ nextDueAt: null, status: 'exhausted', lastFiredAt: at }))).toBe(false);
  });

  test.each<readonly [Partial<ScheduleRow>, string]>([
    [{ nextDueAt: null }, 'no time of its cron expression is inside its window and days'],
    [{ nextDueAt: null, mode: 'at', status: 'exhausted' }, 'its time is over'],
    [{ status: 'invalid', reason: 'plugin_not_found' }, 'its plugin was not found'],
    [{ status: 'invalid', reason: 'command_not_supported: pol' }, 'command not supported: pol'],
  ])('%j never fires: %s', (more, reason) => {
    expect(neverFires(row(more))).toBe(true);
    expect(scheduleNeverFires.describe(row(more))).toMatchObject({
      kind: 'schedule_never_fires',
      key: 'feed/default',
      message: `The schedule feed/default never fires: ${reason}.`,
      why: 'feed/default',
    });
  });

  test('that is skipped again and again is a finding with the job that is in the way', () => {
    const skipped = { lastSkippedAt: at, lastSkipReason: 'already_running', lastJobId: 'j1' };
    expect(isAlwaysSkipped(row({ ...skipped, skippedInRow: 2 }), at)).toBe(false);
    expect(isAlwaysSkipped(row({ ...skipped, skippedInRow: 3 }), at)).toBe(true);
    expect(scheduleAlwaysSkipped.describe(row({ ...skipped, skippedInRow: 3 }))).toMatchObject({
      kind: 'schedule_always_skipped',
      count: 3,
      commands: ['ductile job cancel j1', 'ductile why feed/default'],
    });
  });

  test('that an open breaker or a quiet night skips is not one', () => {
    const skipped = (lastSkipReason: string, more: Partial<ScheduleRow> = {}) =>
      isAlwaysSkipped(row({ lastSkipReason, skippedInRow: 50, ...more }), at);
    expect(skipped('circuit_open')).toBe(false);
    expect(skipped('quiet_hours', { lastFiredAt: earlier })).toBe(false);
    expect(skipped('quiet_hours', { lastFiredAt: longAgo })).toBe(true);
  });
});

function observed(detail: object, more: Partial<Observation> = {}): Observation {
  const text = JSON.stringify(detail);
  return {
    kind: 'call_refused',
    key: 'k',
    count: 4,
    firstAt: earlier,
    lastAt: at,
    detail: text,
    ...more,
  };
}

describe('suppressed work', () => {
  const detail = {
    target: 'mail/handle',
    dedupe_key: 'all',
    holder_kind: 'job',
    holder_id: 'j1',
  };

  test('is a finding only if its payloads differ', () => {
    expect(isTooWide(observed({ ...detail, different: 1 }))).toBe(false);
    expect(isTooWide(observed({ ...detail, different: 3 }))).toBe(true);
    expect(workSuppressed.describe(observed({ ...detail, different: 3 }))).toMatchObject({
      kind: 'work_suppressed',
      message:
        'The dedupe key all of mail/handle is too wide: it dropped 4 requests with 3 different payloads.',
      evidence: expect.stringContaining('job j1 holds the key') as string,
      why: 'j1',
    });
  });

  test('is gone once it is acknowledged, until more is suppressed', async () => {
    const row = observed({ ...detail, different: 3 });
    const ledger = { observations: { list: () => Promise.resolve([row]) } };
    const findAfter = (moment: string) => {
      const acknowledged = new Map([['work_suppressed:k', moment]]);
      return workSuppressed.check({ ledger, acknowledged } as unknown as CheckContext);
    };
    expect(await findAfter(at)).toEqual([]);
    expect(await findAfter(earlier)).toHaveLength(1);
  });
});

describe('a refused call', () => {
  const describeCall = (detail: object) =>
    callRefused.describe({ row: observed(detail), tokens: [] });

  test('names the token and the scope that would have been enough', () => {
    const detail = { actor: 'token:ci', operation: 'plugin.run', scope: 'deploy:rw' };
    expect(describeCall(detail)).toMatchObject({
      kind: 'call_refused',
      message:
        'The token ci was refused 4 times in the last hour for plugin.run: it needs the scope deploy:rw.',
      commands: [
        'ductile token create ci-2 --scopes deploy:rw',
        'ductile incident acknowledge call_refused:k',
      ],
      count: 4,
    });
  });

  test('with an unknown or expired token says so', () => {
    expect(describeCall({ actor: null, operation: null })).toMatchObject({
      message: 'A token that is unknown or revoked was refused 4 times in the last hour.',
    });
    expect(describeCall({ actor: 'token:ci', expired: true })).toMatchObject({
      message: 'The expired token ci was refused 4 times in the last hour.',
      commands: ['ductile token rotate ci'],
    });
  });
});

test('a package watches the events of its own plugins that its routes name', () => {
  const provisioned = JSON.stringify({
    plugins: { notify_watch: { uses: 'folder-watch' } },
    routes: [
      { from: 'notify_watch', event_type: 'folder-watch.file_added', to: 'x' },
      { from: 'other', event_type: 'other.event', to: 'x' },
      { event_type: 'job.dead', to: 'x' },
    ],
    pipelines: [],
    handlers: [],
  });
  expect(listWatches({ provisioned })).toEqual([
    { plugin: 'notify_watch', eventType: 'folder-watch.file_added' },
  ]);
});
