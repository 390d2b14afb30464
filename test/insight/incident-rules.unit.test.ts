/** The rules of incidents, with plain data. */
import { describe, expect, test } from 'vitest';
import { createBareReport } from '../../src/job/attempt.ts';
import { endAsFailed, endAsSucceeded, type Ending } from '../../src/job/outcome.ts';
import type { Incident, IncidentDraft } from '../../src/insight/types.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import { makeFailureStreaks } from '../../src/insight/failure-streaks.service.ts';
import {
  findLastingIncidents,
  hasFailedCheck,
  planIncidentChanges,
  type IncidentReview,
  type ServiceState,
} from '../../src/insight/incident-rules.service.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

const now = '2030-01-01T12:00:00.000Z';
const early = '2030-01-01T11:00:00.000Z';
const rules = { overdueMs: 1000, stalledMs: 60_000, quietMs: 1_800_000, renewMs: 60_000 };
const follow = {
  targetsOf: () => [{ plugin: 'notify', command: 'handle', maxAttempts: 1 }],
  hopsMax: 32,
  dedupeTtlMs: 1000,
};

const sound: ServiceState = {
  overdue: [],
  queue: { now, heads: [], running: new Map(), isMoving: false },
  isHeld: () => false,
  isPaused: false,
  slots: 4,
  damage: [],
  findings: [],
};
const stuck = { ...sound.queue, heads: [{ plugin: 'mail', readyAt: early }] };
const kindsOf = (drafts: readonly IncidentDraft[]) =>
  drafts.map(({ kind, key }) => `${kind} ${key}`);

describe('a lasting problem', () => {
  test.each<[string, Partial<ServiceState>, string[]]>([
    ['nothing', {}, []],
    ['a stalled queue', { queue: stuck }, ['queue_stalled queue']],
    ['not one that moves', { queue: { ...stuck, isMoving: true } }, []],
    ['not one that is paused', { queue: stuck, isPaused: true }, []],
    ['not one whose plugin is held', { queue: stuck, isHeld: () => true }, []],
    ['not one that is busy', { queue: { ...stuck, running: new Map([['x', 4]]) } }, []],
    [
      'not what became ready just now',
      { queue: { ...stuck, heads: [{ plugin: 'mail', readyAt: now }] } },
      [],
    ],
  ])('is %s', (_, more, found) => {
    expect(kindsOf(findLastingIncidents({ ...sound, ...more }, rules))).toEqual(found);
  });

  test('is a schedule that is due, unless it waits for its own job', () => {
    const due = {
      plugin: 'mail',
      scheduleId: 'nightly',
      generation: 'g',
      seq: 1,
      slotAt: early,
      dueAt: early,
      lastJobId: null,
      isLastOpen: false,
      lastCompletedAt: null,
    };
    const overdue = [due, { ...due, scheduleId: 'other', isLastOpen: true }];
    expect(kindsOf(findLastingIncidents({ ...sound, overdue }, rules))).toEqual([
      'schedule_overdue mail/nightly',
    ]);
  });
});

function incident(more: Partial<Incident> = {}): Incident {
  return {
    seq: 1,
    id: 'incident-1',
    kind: 'disk_full',
    key: 'state',
    openedAt: early,
    lastSeenAt: early,
    closedAt: null,
    count: 1,
    detail: '{"message":"full","routed":true}',
    ...more,
  };
}

function plan(more: Partial<IncidentReview>) {
  const attempts = { drafts: [], eventCount: 0, succeededAgoMs: new Map<string, number>() };
  return planIncidentChanges({ now, open: [], attempts, lasting: [], ...more }, rules, follow);
}

const full: IncidentDraft = {
  kind: 'disk_full',
  key: 'state',
  count: 0,
  detail: { message: 'full' },
};

describe('incidents', () => {
  test('a problem is opened and reported, with its consequences', () => {
    const { opened } = plan({ lasting: [full] });
    expect(opened[0]).toMatchObject({ kind: 'disk_full', key: 'state', count: 1 });
    const { signal, jobs } = opened[0]?.emission ?? { signal: undefined, jobs: [] };
    expect(signal).toMatchObject({ type: 'incident.opened', source: 'ductile' });
    expect(jobs[0]).toMatchObject({ plugin: 'notify', runtimeCaused: true });
  });

  test('an alert has a sentence and the command that comes next', () => {
    const commands = ['ductile run revive r1', 'ductile run cancel r1'];
    const halted: IncidentDraft = { ...full, detail: { message: 'A run halted.', commands } };
    const payloadOf = (draft: IncidentDraft): unknown =>
      JSON.parse(plan({ lasting: [draft] }).opened[0]?.emission.signal.data ?? '');
    expect(payloadOf(halted)).toMatchObject({ message: 'A run halted.', next: commands[0] });
    expect(payloadOf(full)).toMatchObject({
      message: 'full',
      next: expect.stringMatching(/^ductile incident show \S+$/),
    });
    expect(payloadOf({ ...full, detail: {} })).toMatchObject({ message: 'disk_full' });
    const { closed } = plan({ open: [incident()] });
    expect(JSON.parse(closed[0]?.emission.signal.data ?? '')).toMatchObject({
      message: 'Resolved: full',
      next: 'ductile incident show incident-1',
    });
  });

  test('an open incident is not opened again, and is renewed now and then', () => {
    expect(plan({ lasting: [full], open: [incident({ lastSeenAt: now })] })).toEqual({
      opened: [],
      renewed: [],
      closed: [],
    });
    expect(plan({ lasting: [full], open: [incident()] }).renewed).toHaveLength(1);
  });

  test('a solved problem is closed by the host that checks, and by no other', () => {
    expect(plan({ open: [incident()] }).closed).toHaveLength(1);
    expect(plan({ open: [incident()], lasting: undefined }).closed).toEqual([]);
  });

  test('an incident about single events is over when none has happened for long', () => {
    const poison = incident({ kind: 'poison_job', key: 'mail/handle' });
    expect(plan({ open: [poison] }).closed).toHaveLength(1);
    expect(plan({ open: [{ ...poison, lastSeenAt: now }] }).closed).toEqual([]);
  });

  test('a streak is over when any host had a success, even one that does not review incidents', () => {
    const open = [incident({ kind: 'failure_streak', key: 'mail/handle' })];
    expect(plan({ open }).closed).toEqual([]);
    const attempts = {
      drafts: [],
      eventCount: 0,
      succeededAgoMs: new Map([['mail/handle', 1000]]),
    };
    expect(plan({ open, attempts, lasting: undefined }).closed).toHaveLength(1);
  });

  test('an incident that was acknowledged is closed, unless it happened again', () => {
    const open = [incident({ kind: 'failure_streak', key: 'mail/handle' })];
    const streak = { kind: 'failure_streak', key: 'mail/handle', detail: {} } as const;
    const attempts = (count: number) => ({
      drafts: [{ ...streak, count }],
      eventCount: 0,
      succeededAgoMs: new Map(),
    });
    const acknowledged = new Map([['failure_streak:mail/handle', now]]);
    expect(plan({ open, attempts: attempts(0) }).closed).toEqual([]);
    const settled = plan({ open, attempts: attempts(0), acknowledged });
    expect(settled).toMatchObject({ opened: [], renewed: [], closed: [{ id: 'incident-1' }] });
    expect(plan({ open, attempts: attempts(1), acknowledged }).closed).toEqual([]);
    const earlier = new Map([['failure_streak:mail/handle', '2030-01-01T10:00:00.000Z']]);
    expect(plan({ open, attempts: attempts(0), acknowledged: earlier }).closed).toEqual([]);
  });

  test('a finding of an incident kind opens one; none is closed while a check fails', () => {
    const finding = {
      kind: 'run_halted',
      key: 'flow',
      severity: 'error',
      category: 'pipelines',
      message: 'A run halted.',
      evidence: 'run 1',
      fix: 'Revive it.',
      commands: ['ductile run revive 1'],
    } as const;
    const failed = { ...finding, kind: 'check_failed' } as const;
    const drafts = findLastingIncidents({ ...sound, findings: [finding, failed] }, rules);
    expect(kindsOf(drafts)).toEqual(['run_halted flow']);
    expect(drafts[0]?.detail).toMatchObject({ evidence: 'run 1', severity: 'error' });
    expect(hasFailedCheck([finding])).toBe(false);
    expect(hasFailedCheck([failed])).toBe(true);
    const open = [incident({ kind: 'run_halted', key: 'flow' })];
    expect(plan({ open }).closed).toHaveLength(1);
    expect(plan({ open, isPartial: true }).closed).toEqual([]);
  });

  test('an alarm about an alarm is recorded and not routed, when it opens and when it closes', () => {
    const { opened } = plan({ lasting: [{ ...full, isAlarm: true }] });
    expect(opened[0]?.emission.jobs).toEqual([]);
    const open = [incident({ detail: opened[0]?.detail ?? '' })];
    expect(plan({ open }).closed[0]?.emission.jobs).toEqual([]);
  });
});

describe('how jobs end', () => {
  const job = makeClaimedJob({ plugin: 'mail', command: 'handle' });
  const report = createBareReport('failed', 'exit', 'password=hunter2hunter2');
  const failing = endAsFailed(job, report, 'final', { maxAttempts: 1, backoffBaseMs: 0 }, 0);
  const closing = (ending: Ending, more: Partial<Closing> = {}): Closing => ({
    job,
    claimToken: 'token',
    report,
    ending,
    signals: [],
    jobs: [],
    ...more,
  });

  const open = [incident({ kind: 'failure_streak', key: 'mail/handle' })];

  test('a streak is reported when it is long enough, with additions, until a success', () => {
    const streaks = makeFailureStreaks(3);
    const fail = (times: number) =>
      streaks.count(Array.from({ length: times }, () => closing(failing)));
    expect(fail(2)).toBe(false);
    expect(streaks.report(open).drafts).toEqual([]);
    expect(fail(1)).toBe(true);
    const first = streaks.report(open);
    expect(first.drafts).toMatchObject([{ kind: 'failure_streak', key: 'mail/handle', count: 3 }]);
    expect(streaks.report(open).drafts[0]?.count).toBe(3);
    streaks.markRecorded(first);
    fail(2);
    expect(streaks.report(open).drafts[0]?.count).toBe(2);
    streaks.count([closing(endAsSucceeded(job))]);
    const after = streaks.report(open);
    expect(after.drafts).toEqual([]);
    expect(after.succeededAgoMs.has('mail/handle')).toBe(true);
    fail(1);
    expect(streaks.report(open).succeededAgoMs.has('mail/handle')).toBe(false);
  });

  test('a streak that another host closed starts from 0 and is not opened again', () => {
    const streaks = makeFailureStreaks(2);
    streaks.count([closing(failing), closing(failing)]);
    streaks.markRecorded(streaks.report([]));
    expect(streaks.report(open).drafts).toHaveLength(1);
    expect(streaks.report([]).drafts).toEqual([]);
    expect(streaks.count([closing(failing)])).toBe(false);
    expect(streaks.report([]).drafts).toEqual([]);
    expect(streaks.count([closing(failing)])).toBe(true);
    expect(streaks.report([]).drafts).toMatchObject([{ count: 2 }]);
  });

  test('a streak that began elsewhere after a success here is not closed by it', () => {
    let nowMs = 0;
    const streaks = makeFailureStreaks(2, () => nowMs);
    streaks.count([closing(endAsSucceeded(job))]);
    nowMs = 10_000;
    const [sooner, later] = ['2030-01-01T11:59:45.000Z', '2030-01-01T11:59:55.000Z'];
    const closed = (openedAt: string) =>
      plan({ open: open.map((one) => ({ ...one, openedAt })), attempts: streaks.report(open) })
        .closed;
    expect(closed(later)).toEqual([]);
    expect(closed(sooner)).toHaveLength(1);
  });

  test('a success is reviewed at once if its command has an open incident', () => {
    const streaks = makeFailureStreaks(2);
    expect(streaks.count([closing(endAsSucceeded(job))])).toBe(false);
    streaks.report(open);
    expect(streaks.count([closing(endAsSucceeded(job))])).toBe(true);
  });

  test('earlier ends count, up to the last success', () => {
    const end = { id: 'j', plugin: 'mail', command: 'handle', error: 'no', isAlarm: false };
    const bad = { ...end, status: 'failed' } as const;
    const ends = [
      bad,
      { ...bad, status: 'cancelled' },
      bad,
      { ...bad, status: 'succeeded' },
      bad,
    ] as const;
    const restored = makeFailureStreaks(3);
    restored.restore(ends, []);
    expect(restored.report([]).drafts).toEqual([]);
    expect(restored.count([closing(failing)])).toBe(true);
    expect(restored.report([]).drafts).toMatchObject([{ key: 'mail/handle', count: 3 }]);
    const known = makeFailureStreaks(2);
    known.restore(ends, open);
    expect(known.report(open).drafts).toMatchObject([{ count: 0 }]);
  });

  test('retries and cancelled jobs break and make no streak', () => {
    const streaks = makeFailureStreaks(1);
    const again = endAsFailed(job, report, 'retryable', { maxAttempts: 3, backoffBaseMs: 1 }, 0);
    expect(streaks.count([closing(again)])).toBe(false);
    expect(streaks.report(open).drafts).toEqual([]);
  });

  test('jobs that were put aside and chains that were too long are reported together', () => {
    const streaks = makeFailureStreaks(99);
    const dead: Ending = { ...failing, status: 'dead', reason: 'crashes_exhausted' };
    const loop = {
      id: 's',
      type: 'incident.loop',
      source: 'ductile',
      data: '{}',
      hops: 33,
      correlationId: 'c',
    };
    streaks.count([
      closing(dead),
      closing(dead),
      closing(endAsSucceeded(job), { signals: [loop] }),
    ]);
    const first = streaks.report(open);
    expect(first.drafts).toMatchObject([
      { kind: 'poison_job', key: 'mail/handle', count: 2 },
      { kind: 'hops_limit', key: 'mail', count: 1 },
    ]);
    streaks.markRecorded(first);
    expect(streaks.report(open).drafts).toEqual([]);
  });

  test('a streak of handlers of alarms is an alarm, one other failure makes it none', () => {
    const streaks = makeFailureStreaks(2);
    const alarm = closing(failing, { job: { ...job, runtimeCaused: true } });
    streaks.count([alarm, alarm]);
    expect(streaks.report(open).drafts[0]?.isAlarm).toBe(true);
    streaks.count([closing(failing), alarm]);
    expect(streaks.report(open).drafts[0]?.isAlarm).toBe(false);
  });
});
