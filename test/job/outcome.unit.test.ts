import fc from 'fast-check';
import { haltReasonOf } from '../../src/pipeline/run/halt.ts';
import { describe, expect, test } from 'vitest';
import { createBareReport } from '../../src/job/attempt.ts';
import {
  findChargedJobs,
  endAsCancelled,
  endAsCrashed,
  endAsFailed,
  endAsReleased,
  endAsSucceeded,
} from '../../src/job/outcome.ts';
import { isTerminal } from '../../src/job/job.ts';

const job = { retryCount: 1, crashCount: 2, interruptCount: 1, suspect: false, maxAttempts: 4 };
const counts = { retryCount: 1, crashCount: 2, interruptCount: 1, suspect: false };
const policy = { maxAttempts: 4, backoffBaseMs: 1000 };
const rules = { crashesMax: 10, suspectAfter: 2 };
const failed = createBareReport('failed', 'exit', 'it broke');
const timedOut = createBareReport('timed_out', 'timeout', 'too slow');

describe('an attempt that succeeds, is cancelled or is released', () => {
  test('succeeds without a reason, its counts unchanged', () => {
    expect(endAsSucceeded(job)).toEqual({
      ...counts,
      status: 'succeeded',
      reason: null,
      delayMs: 0,
    });
  });

  test('is cancelled with that reason', () => {
    expect(endAsCancelled(job)).toEqual({
      ...counts,
      status: 'cancelled',
      reason: 'cancelled',
      delayMs: 0,
    });
  });

  test('is released at once or soon, without a charge', () => {
    expect(endAsReleased(job)).toEqual({ ...counts, status: 'queued', reason: null, delayMs: 0 });
    expect(endAsReleased(job, 250).delayMs).toBe(250);
  });
});

describe('an attempt that fails', () => {
  test('is charged to the budget and repeated after its delay', () => {
    expect(endAsFailed(job, failed, 'retryable', policy, 0.5)).toEqual({
      ...counts,
      status: 'queued',
      reason: null,
      delayMs: 2500,
      retryCount: 2,
      interruptCount: 0,
    });
  });

  test('is repeated no sooner than it may be', () => {
    const delay = (atLeastMs: number) =>
      endAsFailed(job, failed, 'retryable', { ...policy, atLeastMs }, 0.5).delayMs;
    expect(delay(60_000)).toBe(60_000);
    expect(delay(1000)).toBe(2500);
  });

  test('with a single attempt does not mention retries', () => {
    const once = { ...job, retryCount: 0, maxAttempts: 1 };
    const end = endAsFailed(once, failed, 'retryable', policy, 0);
    expect(end).toMatchObject({ status: 'dead', reason: 'attempt_failed' });
    expect(haltReasonOf(end)).toBe('attempt_failed');
  });

  test('is dead when the budget is used up, or timed out if that was the last of it', () => {
    const last = { ...job, retryCount: 3 };
    const reason = 'retries_exhausted';
    expect(endAsFailed(last, failed, 'retryable', policy, 0)).toMatchObject({
      status: 'dead',
      reason,
    });
    expect(endAsFailed(last, timedOut, 'retryable', policy, 0)).toMatchObject({
      status: 'timed_out',
      reason,
      retryCount: 4,
      delayMs: 0,
    });
  });

  test('is failed at once when no further attempt can help, with its cause', () => {
    expect(endAsFailed(job, failed, 'final', policy, 0)).toMatchObject({
      status: 'failed',
      reason: 'exit',
      retryCount: 2,
    });
  });

  test('clears a suspicion, because the service survived it', () => {
    const suspect = { ...job, suspect: true, interruptCount: 3 };
    expect(endAsFailed(suspect, failed, 'retryable', policy, 0)).toMatchObject({
      suspect: false,
      interruptCount: 0,
      crashCount: 2,
    });
  });

  test('runs exactly as often as its budget says', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), fc.boolean(), (maxAttempts, isSlow) => {
        let current = { ...job, retryCount: 0, maxAttempts };
        for (let attempt = 1; ; attempt += 1) {
          const report = isSlow ? timedOut : failed;
          const ending = endAsFailed(current, report, 'retryable', policy, 0);
          expect(isTerminal(ending.status)).toBe(attempt === maxAttempts);
          if (isTerminal(ending.status)) break;
          current = { ...current, ...ending, maxAttempts };
        }
      }),
      { seed: 1 },
    );
  });
});

describe('an attempt during which the service crashes', () => {
  test('beside others is not charged, and becomes a suspect after several crashes', () => {
    const first = endAsCrashed({ ...job, interruptCount: 0 }, false, rules);
    expect(first).toMatchObject({
      status: 'queued',
      delayMs: 0,
      crashCount: 2,
      retryCount: 1,
      interruptCount: 1,
      suspect: false,
    });
    const second = endAsCrashed({ ...job, ...first }, false, rules);
    expect(second).toMatchObject({ interruptCount: 2, suspect: true, crashCount: 2 });
  });

  test('alone is charged with the crash, and with nothing else', () => {
    expect(endAsCrashed(job, true, rules)).toMatchObject({
      status: 'queued',
      crashCount: 3,
      retryCount: 1,
      suspect: true,
      delayMs: 0,
    });
  });

  test('waits longer each time, and is dead after the last crash of its budget', () => {
    expect(endAsCrashed({ ...job, crashCount: 5 }, true, rules).delayMs).toBe(60_000);
    expect(endAsCrashed({ ...job, crashCount: 9 }, true, rules)).toMatchObject({
      status: 'dead',
      reason: 'crashes_exhausted',
      crashCount: 10,
    });
  });

  test('never uses the budget for failures', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 30 }), (charges) => {
        let current = { ...job, crashCount: 0 };
        for (const charged of charges) {
          const ending = endAsCrashed(current, charged, rules);
          expect(ending.retryCount).toBe(job.retryCount);
          current = { ...current, ...ending };
          if (isTerminal(ending.status)) break;
        }
        const all = charges.filter(Boolean).length;
        expect(current.crashCount).toBe(Math.min(all, rules.crashesMax));
      }),
      { seed: 1 },
    );
  });
});

describe('the jobs that are charged with a crash', () => {
  const plain = (id: string) => ({ id, suspect: false });
  const suspect = (id: string) => ({ id, suspect: true });

  test.each([
    ['nobody, when nothing ran', [], []],
    ['whoever ran alone', [plain('a')], ['a']],
    ['a suspect that ran alone', [suspect('a')], ['a']],
    ['nobody in a company without suspects', [plain('a'), plain('b')], []],
    ['the only suspect in the company', [plain('a'), suspect('b'), plain('c')], ['b']],
    ['nobody among several suspects', [suspect('a'), suspect('b'), plain('c')], []],
  ])('is %s', (_, jobs, blamed) => {
    expect([...findChargedJobs(jobs)]).toEqual(blamed);
  });
});

describe('a bare report', () => {
  test('has the end of the attempt and nothing else', () => {
    const { status, cause, error, stderrTruncated, ...rest } = createBareReport(
      'crashed',
      'signal',
      'e',
    );
    expect([status, cause, error, stderrTruncated]).toEqual(['crashed', 'signal', 'e', false]);
    expect(new Set(Object.values(rest))).toEqual(new Set([null]));
  });
});
