/** The judge is judged first: each crime is planted once and must be named. */
import { describe, expect, test } from 'vitest';
import { check, type Evidence, type SeenAttempt, type SeenJob } from './support/checker.ts';
import type { RecordLine } from './support/recorder.ts';

const job: SeenJob = {
  id: 'job',
  plugin: 'recorder',
  payload: '{"ref":1}',
  status: 'succeeded',
  lastError: null,
  parentJobId: null,
  sourceEventId: null,
  retryCount: 0,
};
const follower: SeenJob = {
  ...job,
  id: 'next',
  plugin: 'follower',
  parentJobId: 'job',
  sourceEventId: 'signal',
};
const crashed: SeenAttempt = { jobId: 'job', attempt: 1, status: 'crashed', cause: 'engine_crash' };
const success: SeenAttempt = { jobId: 'job', attempt: 2, status: 'succeeded', cause: 'ok' };
const followed: SeenAttempt = { jobId: 'next', attempt: 1, status: 'succeeded', cause: 'ok' };
const signal = { id: 'signal', type: 'recorder.done', jobId: 'job', jobAttempt: 2 };

function line(jobId: string, attempt: number, phase: RecordLine['phase']): RecordLine {
  const process = { pid: attempt, born: '1', survivors: [] };
  return { job_id: jobId, plugin: '', attempt, idempotency_key: `key-${jobId}`, phase, ...process };
}

/** A job that met a crash and was done by its second attempt, and the job that follows it. */
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
  problems: [],
  leftovers: [],
};

const [firstStart, secondStart, ...otherLines] = sound.record as [RecordLine, RecordLine];
const [, refused, unknown] = sound.history;
const stray: SeenJob = { ...job, id: 'stray', payload: '{"ref":9}' };
const strayDone: Partial<Evidence> = {
  record: [...sound.record, line('stray', 1, 'start'), line('stray', 1, 'end')],
  attempts: [...sound.attempts, { ...followed, jobId: 'stray' }],
};

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
    });
  });

  test.each(crimes)('names %s', (_, changes, wanted) => {
    const { faults } = check({ ...sound, ...changes });
    for (const fault of wanted)
      expect(faults).toContainEqual(expect.stringContaining(fault) as string);
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
    // Only what the planted job lacks, for it was given no consequences.
    expect(faults).toEqual(['stray has 0 signals, not 1', 'stray has 0 followers, not 1']);
    expect([counts.unknown, counts.recovered]).toEqual([1, 1]);
    expect(unknown?.ref).toBe(3);
  });
});
