/** The rules of incidents, with plain data. */
import { describe, expect, test } from 'vitest';
import { createBareReport } from '../../src/job/attempt.ts';
import { endAsFailed, endAsSucceeded, type Ending } from '../../src/job/outcome.ts';
import type { Incident } from '../../src/insight/types.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import { makeOutcomes } from '../../src/insight/failure-streaks.service.ts';
import {
  findTroubles,
  hasFailedCheck,
  planIncidentMoves,
  type IncidentLook,
  type WatchedState,
  type IncidentTrouble,
} from '../../src/insight/incident-rules.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

const now = '2030-01-01T12:00:00.000Z';
const early = '2030-01-01T11:00:00.000Z';
const rules = { overdueMs: 1000, stalledMs: 60_000, quietMs: 1_800_000, renewMs: 60_000 };
const follow = {
  targetsOf: () => [{ plugin: 'notify', command: 'handle', maxAttempts: 1 }],
  hopsMax: 32,
  dedupeTtlMs: 1000,
};

const sound: WatchedState = {
  overdue: [],
  queue: { now, heads: [], running: new Map(), isMoving: false },
  isHeld: () => false,
  isPaused: false,
  slots: 4,
  damage: [],
  findings: [],
};
const stuck = { ...sound.queue, heads: [{ plugin: 'mail', readyAt: early }] };
const kindsOf = (troubles: readonly IncidentTrouble[]) =>
  troubles.map(({ kind, key }) => `${kind} ${key}`);

describe('a standing problem', () => {
  test.each<[string, Partial<WatchedState>, string[]]>([
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
    expect(kindsOf(findTroubles({ ...sound, ...more }, rules))).toEqual(found);
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
    expect(kindsOf(findTroubles({ ...sound, overdue }, rules))).toEqual([
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

function moves(more: Partial<IncidentLook>) {
  const seen = { troubles: [], passed: 0, well: new Map<string, number>() };
  return planIncidentMoves({ now, open: [], seen, lasting: [], ...more }, rules, follow);
}

const full: IncidentTrouble = {
  kind: 'disk_full',
  key: 'state',
  count: 0,
  detail: { message: 'full' },
};

describe('incidents', () => {
  test('a problem is opened and reported, with its consequences', () => {
    const { opened } = moves({ lasting: [full] });
    expect(opened[0]).toMatchObject({ kind: 'disk_full', key: 'state', count: 1 });
    const { signal, jobs } = opened[0]?.emission ?? { signal: undefined, jobs: [] };
    expect(signal).toMatchObject({ type: 'incident.opened', source: 'ductile' });
    expect(jobs[0]).toMatchObject({ plugin: 'notify', runtimeCaused: true });
  });

  test('an alert has a sentence and the command that comes next', () => {
    const commands = ['ductile run revive r1', 'ductile run cancel r1'];
    const halted: IncidentTrouble = { ...full, detail: { message: 'A run halted.', commands } };
    const payloadOf = (trouble: IncidentTrouble): unknown =>
      JSON.parse(moves({ lasting: [trouble] }).opened[0]?.emission.signal.data ?? '');
    expect(payloadOf(halted)).toMatchObject({ message: 'A run halted.', next: commands[0] });
    expect(payloadOf(full)).toMatchObject({
      message: 'full',
      next: expect.stringMatching(/^ductile incident show \S+$/),
    });
    expect(payloadOf({ ...full, detail: {} })).toMatchObject({ message: 'disk_full' });
    const { closed } = moves({ open: [incident()] });
    expect(JSON.parse(closed[0]?.emission.signal.data ?? '')).toMatchObject({
      message: 'Resolved: full',
      next: 'ductile incident show incident-1',
    });
  });

  test('an open incident is not opened again, and is renewed now and then', () => {
    expect(moves({ lasting: [full], open: [incident({ lastSeenAt: now })] })).toEqual({
      opened: [],
      renewed: [],
      closed: [],
    });
    expect(moves({ lasting: [full], open: [incident()] }).renewed).toHaveLength(1);
  });

  test('a solved problem is closed by the host that checks, and by no other', () => {
    expect(moves({ open: [incident()] }).closed).toHaveLength(1);
    expect(moves({ open: [incident()], lasting: undefined }).closed).toEqual([]);
  });

  test('an incident about single events is over when none has happened for long', () => {
    const poison = incident({ kind: 'poison_job', key: 'mail/handle' });
    expect(moves({ open: [poison] }).closed).toHaveLength(1);
    expect(moves({ open: [{ ...poison, lastSeenAt: now }] }).closed).toEqual([]);
  });

  test('a streak is over when any host saw a success, also one that does not look', () => {
    const open = [incident({ kind: 'failure_streak', key: 'mail/handle' })];
    expect(moves({ open }).closed).toEqual([]);
    const seen = { troubles: [], passed: 0, well: new Map([['mail/handle', 1000]]) };
    expect(moves({ open, seen, lasting: undefined }).closed).toHaveLength(1);
  });

  test('an incident that was acknowledged is closed, unless it happened again', () => {
    const open = [incident({ kind: 'failure_streak', key: 'mail/handle' })];
    const streak = { kind: 'failure_streak', key: 'mail/handle', detail: {} } as const;
    const seen = (count: number) => ({
      troubles: [{ ...streak, count }],
      passed: 0,
      well: new Map(),
    });
    const acknowledged = new Map([['failure_streak:mail/handle', now]]);
    expect(moves({ open, seen: seen(0) }).closed).toEqual([]);
    const settled = moves({ open, seen: seen(0), acknowledged });
    expect(settled).toMatchObject({ opened: [], renewed: [], closed: [{ id: 'incident-1' }] });
    expect(moves({ open, seen: seen(1), acknowledged }).closed).toEqual([]);
    const earlier = new Map([['failure_streak:mail/handle', '2030-01-01T10:00:00.000Z']]);
    expect(moves({ open, seen: seen(0), acknowledged: earlier }).closed).toEqual([]);
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
    const troubles = findTroubles({ ...sound, findings: [finding, failed] }, rules);
    expect(kindsOf(troubles)).toEqual(['run_halted flow']);
    expect(troubles[0]?.detail).toMatchObject({ evidence: 'run 1', severity: 'error' });
    expect(hasFailedCheck([finding])).toBe(false);
    expect(hasFailedCheck([failed])).toBe(true);
    const open = [incident({ kind: 'run_halted', key: 'flow' })];
    expect(moves({ open }).closed).toHaveLength(1);
    expect(moves({ open, isPartial: true }).closed).toEqual([]);
  });

  test('an alarm about an alarm is recorded and not routed, when it opens and when it closes', () => {
    const { opened } = moves({ lasting: [{ ...full, isAlarm: true }] });
    expect(opened[0]?.emission.jobs).toEqual([]);
    const open = [incident({ detail: opened[0]?.detail ?? '' })];
    expect(moves({ open }).closed[0]?.emission.jobs).toEqual([]);
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
    const outcomes = makeOutcomes(3);
    const fail = (times: number) =>
      outcomes.note(Array.from({ length: times }, () => closing(failing)));
    expect(fail(2)).toBe(false);
    expect(outcomes.look(open).troubles).toEqual([]);
    expect(fail(1)).toBe(true);
    const first = outcomes.look(open);
    expect(first.troubles).toMatchObject([
      { kind: 'failure_streak', key: 'mail/handle', count: 3 },
    ]);
    expect(outcomes.look(open).troubles[0]?.count).toBe(3);
    outcomes.told(first);
    fail(2);
    expect(outcomes.look(open).troubles[0]?.count).toBe(2);
    outcomes.note([closing(endAsSucceeded(job))]);
    const after = outcomes.look(open);
    expect(after.troubles).toEqual([]);
    expect(after.well.has('mail/handle')).toBe(true);
    fail(1);
    expect(outcomes.look(open).well.has('mail/handle')).toBe(false);
  });

  test('a streak that another host closed starts from 0 and is not opened again', () => {
    const outcomes = makeOutcomes(2);
    outcomes.note([closing(failing), closing(failing)]);
    outcomes.told(outcomes.look([]));
    expect(outcomes.look(open).troubles).toHaveLength(1);
    expect(outcomes.look([]).troubles).toEqual([]);
    expect(outcomes.note([closing(failing)])).toBe(false);
    expect(outcomes.look([]).troubles).toEqual([]);
    expect(outcomes.note([closing(failing)])).toBe(true);
    expect(outcomes.look([]).troubles).toMatchObject([{ count: 2 }]);
  });

  test('a streak that began elsewhere after a success here is not closed by it', () => {
    let nowMs = 0;
    const outcomes = makeOutcomes(2, () => nowMs);
    outcomes.note([closing(endAsSucceeded(job))]);
    nowMs = 10_000;
    const [sooner, later] = ['2030-01-01T11:59:45.000Z', '2030-01-01T11:59:55.000Z'];
    const closed = (openedAt: string) =>
      moves({ open: open.map((one) => ({ ...one, openedAt })), seen: outcomes.look(open) }).closed;
    expect(closed(later)).toEqual([]);
    expect(closed(sooner)).toHaveLength(1);
  });

  test('a success is looked at once where an incident waits for it', () => {
    const outcomes = makeOutcomes(2);
    expect(outcomes.note([closing(endAsSucceeded(job))])).toBe(false);
    outcomes.look(open);
    expect(outcomes.note([closing(endAsSucceeded(job))])).toBe(true);
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
    const anew = makeOutcomes(3);
    anew.recall(ends, []);
    expect(anew.look([]).troubles).toEqual([]);
    expect(anew.note([closing(failing)])).toBe(true);
    expect(anew.look([]).troubles).toMatchObject([{ key: 'mail/handle', count: 3 }]);
    const known = makeOutcomes(2);
    known.recall(ends, open);
    expect(known.look(open).troubles).toMatchObject([{ count: 0 }]);
  });

  test('retries and cancelled jobs break and make no streak', () => {
    const outcomes = makeOutcomes(1);
    const again = endAsFailed(job, report, 'retryable', { maxAttempts: 3, backoffBaseMs: 1 }, 0);
    expect(outcomes.note([closing(again)])).toBe(false);
    expect(outcomes.look(open).troubles).toEqual([]);
  });

  test('jobs that were put aside and chains that were too long are reported together', () => {
    const outcomes = makeOutcomes(99);
    const dead: Ending = { ...failing, status: 'dead', reason: 'crashes_exhausted' };
    const loop = {
      id: 's',
      type: 'incident.loop',
      source: 'ductile',
      data: '{}',
      hops: 33,
      correlationId: 'c',
    };
    outcomes.note([
      closing(dead),
      closing(dead),
      closing(endAsSucceeded(job), { signals: [loop] }),
    ]);
    const seen = outcomes.look(open);
    expect(seen.troubles).toMatchObject([
      { kind: 'poison_job', key: 'mail/handle', count: 2 },
      { kind: 'hops_limit', key: 'mail', count: 1 },
    ]);
    outcomes.told(seen);
    expect(outcomes.look(open).troubles).toEqual([]);
  });

  test('a streak of handlers of alarms is an alarm, one other failure makes it none', () => {
    const outcomes = makeOutcomes(2);
    const alarm = closing(failing, { job: { ...job, runtimeCaused: true } });
    outcomes.note([alarm, alarm]);
    expect(outcomes.look(open).troubles[0]?.isAlarm).toBe(true);
    outcomes.note([closing(failing), alarm]);
    expect(outcomes.look(open).troubles[0]?.isAlarm).toBe(false);
  });
});
