/** The checker itself is tested: each violation is planted once and must be reported. */
import { describe, expect, test } from 'vitest';
import { check } from './checker.ts';
import type { Evidence, SeenAttempt, SeenJob, SeenRun } from './evidence.ts';
import type { RecordLine } from './recorder.ts';

/** Returns the timestamp of a second of the test. */
function at(second: number): string {
  return new Date(1000 * second).toISOString();
}

const job: SeenJob = {
  id: 'job',
  plugin: 'recorder',
  payload: '{"ref":1}',
  status: 'succeeded',
  lastError: null,
  parentJobId: null,
  sourceEventId: null,
  retryCount: 0,
  runId: null,
  scheduleId: null,
  scheduleSlot: null,
  dedupeKey: null,
  createdAt: at(0),
  completedAt: at(9),
};
const follower: SeenJob = {
  ...job,
  id: 'next',
  plugin: 'follower',
  parentJobId: 'job',
  sourceEventId: 'signal',
};
const crashed: SeenAttempt = {
  jobId: 'job',
  attempt: 1,
  status: 'crashed',
  cause: 'engine_crash',
  startedAt: at(4),
  completedAt: at(6),
};
const success: SeenAttempt = { ...crashed, attempt: 2, status: 'succeeded', cause: 'ok' };
const followed: SeenAttempt = { ...success, jobId: 'next', attempt: 1 };
const signal = { id: 'signal', type: 'recorder.done', jobId: 'job', jobAttempt: 2 };

function line(jobId: string, attempt: number, phase: RecordLine['phase']): RecordLine {
  const process = { pid: attempt, born: '1', survivors: [] };
  const key = `key-${jobId}`;
  return { job_id: jobId, plugin: '', attempt, idempotency_key: key, phase, at: 0, ...process };
}

/** A job whose first attempt crashed and whose second succeeded, and the job that follows it. */
const sound: Evidence = {
  history: [
    { ref: 1, outcome: 'acknowledged', jobId: 'job' },
    { ref: 2, outcome: 'refused', code: 'LEDGER_UNAVAILABLE' },
    { ref: 3, outcome: 'unknown' },
  ],
  record: [
    line('job', 1, 'start'),
    line('job', 2, 'start'),
    line('job', 2, 'end'),
    line('next', 1, 'start'),
    line('next', 1, 'end'),
  ],
  jobs: [job, follower],
  attempts: [crashed, success, followed],
  signals: [signal],
  runs: [],
  problems: [],
  leftovers: [],
  disturbances: [{ kind: 'kill', fromMs: 5000, untilMs: 5000 }],
};

const [firstStart, secondStart, ...otherLines] = sound.record as [RecordLine, RecordLine];
const [, refused, unknown] = sound.history;
const stray: SeenJob = { ...job, id: 'stray', payload: '{"ref":9}' };
const strayDone: Partial<Evidence> = {
  record: [...sound.record, line('stray', 1, 'start'), line('stray', 1, 'end')],
  attempts: [...sound.attempts, { ...followed, jobId: 'stray' }],
};

const element: SeenJob = {
  ...job,
  id: 'one',
  plugin: 'element',
  payload: '{"index":0}',
  runId: 'r',
};
const run: SeenRun = {
  id: 'r',
  payload: '{"ref":3,"items":[5]}',
  status: 'succeeded',
  output: '{"each":[{"item":5,"index":0}]}',
  haltMessage: null,
  dedupeKey: null,
};
const tick: SeenJob = { ...job, id: 'tick', scheduleId: 'default', scheduleSlot: 'g:1' };

const keyed: SeenJob = { ...stray, id: 'keyed', payload: '{"ref":3,"dedupe":"k"}' };

/** Adds jobs without attempts. */
function withWork(jobs: readonly SeenJob[], runs: readonly SeenRun[] = []): Partial<Evidence> {
  return { jobs: [...sound.jobs, ...jobs], runs };
}

type Crime = readonly [name: string, changes: Partial<Evidence>, faults: readonly string[]];

const crimes: readonly Crime[] = [
  [
    'a lost job',
    { jobs: [], attempts: [], signals: [], record: [] },
    ['lost: 1 was acknowledged as job and is gone'],
  ],
  [
    'a job left running',
    { jobs: [job, { ...follower, status: 'running' }], attempts: [crashed, success] },
    ['unfinished: next is left running'],
  ],
  [
    'a job that died',
    { jobs: [job, { ...follower, status: 'dead' }] },
    ['unfinished: next is left dead'],
  ],
  [
    'a job that nobody asked for',
    { ...strayDone, jobs: [...sound.jobs, { ...stray, parentJobId: 'nobody' }] },
    ['unexpected: stray descends from nobody, which is not there'],
  ],
  [
    'a request that made two jobs',
    { jobs: [job, { ...job, id: 'twin' }, follower] },
    ['duplicated: 1 was asked for once, made job, twin'],
  ],
  [
    'a double commit',
    { attempts: [{ ...crashed, status: 'succeeded' }, success, followed] },
    ['double commit: job succeeded 2 times'],
  ],
  [
    'an attempt after the success',
    {
      attempts: [{ ...crashed, status: 'succeeded' }, { ...success, status: 'crashed' }, followed],
    },
    ['job was tried again after it had succeeded'],
  ],
  ['a success without an attempt', { attempts: [followed] }, ['no attempt at job succeeded']],
  [
    'a gap in the attempts',
    { attempts: [crashed, { ...success, attempt: 3 }, followed] },
    ['the attempts at job are 1, 3'],
  ],
  [
    'an attempt that ran twice',
    { record: [...sound.record, secondStart] },
    ['attempt 2 at job ran 2 times'],
  ],
  [
    'an attempt that nobody tells of',
    { attempts: [success, followed] },
    ['attempt 1 at job ran without a row'],
  ],
  [
    'a repeat without a reason',
    { attempts: [{ ...crashed, status: 'succeeded' }, success, followed] },
    ['unexplained: attempt 2 at job was run, though attempt 1 is succeeded'],
  ],
  [
    'a success that did nothing',
    { record: [firstStart, secondStart, ...otherLines.slice(1)] },
    ['attempt 2 at job succeeded but did its work 0 times'],
  ],
  [
    'a process that outlived its attempt',
    { record: [firstStart, { ...secondStart, survivors: [7] }, ...otherLines] },
    ['overlap: 7 still ran when attempt 2 at job was started'],
  ],
  [
    'a key that changed between attempts',
    { record: [firstStart, { ...secondStart, idempotency_key: 'other' }, ...otherLines] },
    ['job was run under 2 idempotency keys'],
  ],
  [
    'a key that two jobs share',
    { record: sound.record.map((each) => ({ ...each, idempotency_key: 'same' })) },
    ['2 jobs share the idempotency key same'],
  ],
  ['a signal that was lost', { signals: [] }, ['job has 0 signals, not 1']],
  ['a second signal', { signals: [signal, { ...signal, id: 'again' }] }, ['job has 2 signals']],
  [
    'the signal of an attempt that failed',
    { signals: [{ ...signal, jobAttempt: 1 }] },
    ['the signal of job is from another attempt than its success'],
  ],
  [
    'a follower that was lost',
    { jobs: [job], attempts: [crashed, success], record: sound.record.slice(0, 3) },
    ['job has 0 followers, not 1'],
  ],
  ['a second follower', { jobs: [job, follower, follower] }, ['job has 2 followers, not 1']],
  [
    'a follower of something else',
    { jobs: [job, { ...follower, sourceEventId: 'other' }] },
    ['the follower of job has another cause than its signal'],
  ],
  [
    'a crash that was charged as a failure',
    { jobs: [{ ...job, retryCount: 1 }, follower] },
    ['job was charged with 1 failures but had 0'],
  ],
  [
    'a failure that was not asked for',
    { attempts: [{ ...crashed, status: 'failed' }, success, followed] },
    ['unexplained: attempt 1 at job failed of itself'],
  ],
  [
    'a crash before which nothing had happened',
    { disturbances: [{ kind: 'kill', fromMs: 7000, untilMs: 7000 }] },
    ['unexplained: attempt 1 at job is crashed (engine_crash), and nothing had happened'],
  ],
  [
    'a crash long after what had happened',
    { disturbances: [{ kind: 'kill', fromMs: 0, untilMs: 500 }] },
    ['unexplained: attempt 1 at job is crashed (engine_crash), and nothing had happened'],
  ],
  [
    'an attempt that began after the next one',
    { record: [secondStart, firstStart, ...otherLines] },
    ['zombie: attempt 1 at job was started after attempt 2'],
  ],
  [
    'a run that was lost',
    { history: [...sound.history, { ref: 4, outcome: 'acknowledged', runId: 'r' }] },
    ['lost: 4 was acknowledged as r and is gone'],
  ],
  [
    'a run that nobody asked for',
    withWork([], [{ ...run, payload: '{"ref":9,"items":[5]}' }]),
    ['unexpected: r was never asked for'],
  ],
  [
    'a run that did not end',
    withWork([], [{ ...run, status: 'running' }]),
    ['unfinished: run r is left running'],
  ],
  [
    'an element that was done by two jobs',
    withWork([element, { ...element, id: 'two' }], [run]),
    ['run r has jobs for the elements 0,0'],
  ],
  ['a run that did not go on', withWork([element], [run]), ['run r went on 0 times']],
  [
    'a join without an element',
    withWork([element], [{ ...run, output: '{"each":[]}' }]),
    ['run r joined , not 5'],
  ],
  [
    'a slot that was fired twice',
    withWork([tick, { ...tick, id: 'tock', createdAt: at(20) }]),
    ['the slot g:1 has 2 jobs'],
  ],
  [
    'a slot that was fired before its time',
    withWork([tick, { ...tick, id: 'tock', scheduleSlot: 'g:2', createdAt: at(9.1) }]),
    ['tock was due 100 ms after tick had ended'],
  ],
  [
    'a key that has two jobs',
    withWork([
      { ...keyed, dedupeKey: 'k' },
      { ...follower, id: 'twin', dedupeKey: 'k' },
    ]),
    ['the key k has 2 followers: keyed, twin'],
  ],
  ['a key that has none', withWork([keyed]), ['the key k has 0 followers']],
  [
    'a key that has two runs',
    withWork(
      [],
      [
        { ...run, dedupeKey: 'k' },
        { ...run, id: 's', dedupeKey: 'k' },
      ],
    ),
    ['the key k has 2 runs'],
  ],
  ['a ledger in disorder', { problems: ['page 3'] }, ['the ledger is not sound: page 3']],
  ['a process left over', { leftovers: [5] }, ['process 5 of a plugin outlived every server']],
];

describe('the checker', () => {
  test('acquits a crash that was made good', () => {
    const { faults, counts } = check(sound);
    expect(faults).toEqual([]);
    expect(counts).toEqual({
      acknowledged: 1,
      refused: 1,
      unknown: 1,
      recovered: 0,
      jobs: 2,
      repeated: 1,
      crashed: 1,
      released: 0,
      failed: 0,
      runs: 0,
      ticks: 0,
    });
  });

  test.each(crimes)('names %s', (_, changes, wanted) => {
    const { faults } = check({ ...sound, ...changes });
    for (const fault of wanted)
      expect(faults).toContainEqual(expect.stringContaining(fault) as string);
  });

  test('accepts that plugins of a host overlap if no process was there to end them', () => {
    const record = [firstStart, { ...secondStart, survivors: [7] }, ...otherLines];
    expect(check({ ...sound, record, mayOverlap: true }).faults).toEqual([]);
  });

  test('acquits a run and a slot', () => {
    const jobs = [element, { ...element, id: 'last', plugin: 'last' }, tick];
    const { faults, counts } = check({ ...sound, ...withWork(jobs, [run]) });
    // These jobs have no attempts.
    expect(faults.filter((fault) => !fault.startsWith('no attempt at'))).toEqual([]);
    expect(counts).toMatchObject({ runs: 1, ticks: 1, recovered: 1 });
  });

  test.each([
    ['never asked for', undefined],
    ['refused', { ...refused, ref: 9, outcome: 'refused' as const }],
    ['acknowledged under another id', { ref: 9, outcome: 'acknowledged' as const, jobId: 'x' }],
  ])('names a job that was %s', (_, operation) => {
    const history = operation === undefined ? sound.history : [...sound.history, operation];
    const { faults } = check({ ...sound, ...strayDone, history, jobs: [...sound.jobs, stray] });
    expect(faults).toContainEqual(expect.stringMatching(/^unexpected: .*stray/) as string);
  });

  test('accepts and counts a job whose answer was lost', () => {
    const recovered: SeenJob = { ...stray, payload: '{"ref":3}' };
    const evidence = { ...sound, ...strayDone, jobs: [...sound.jobs, recovered] };
    const { faults, counts } = check(evidence);
    // The planted job has no signal and no follower.
    expect(faults).toEqual(['stray has 0 signals, not 1', 'stray has 0 followers, not 1']);
    expect([counts.unknown, counts.recovered]).toEqual([1, 1]);
    expect(unknown?.ref).toBe(3);
  });
});
