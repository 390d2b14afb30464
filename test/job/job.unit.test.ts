import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatTraceparent, TRACE_KEY } from '../../src/base/trace.ts';
import {
  canTransition,
  findTrace,
  isTerminal,
  type JobCause,
  jobStatuses,
  type JobStatus,
  lineageOf,
  refuseDecision,
  refuseLoop,
  traceparentOf,
} from '../../src/job/job.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

const status = fc.constantFrom(...jobStatuses);

describe('the states of a job', () => {
  test('are terminal, except for waiting and running', () => {
    expect(jobStatuses.filter((one) => !isTerminal(one))).toEqual(['queued', 'running']);
  });

  test('are never left once terminal', () => {
    fc.assert(
      fc.property(status, status, (from, to) => {
        if (isTerminal(from)) expect(canTransition(from, to)).toBe(false);
      }),
      { seed: 1 },
    );
  });

  test('can all be reached from the first', () => {
    const reached = new Set<JobStatus>(['queued']);
    for (const from of reached) {
      for (const to of jobStatuses) if (canTransition(from, to)) reached.add(to);
    }
    expect(reached).toEqual(new Set(jobStatuses));
  });

  test('a job succeeds, fails or times out only while it runs', () => {
    for (const end of ['succeeded', 'failed', 'timed_out'] as const) {
      expect(jobStatuses.filter((from) => canTransition(from, end))).toEqual(['running']);
    }
  });

  test('only a running job waits again, and only a waiting one starts', () => {
    expect(jobStatuses.filter((from) => canTransition(from, 'queued'))).toEqual(['running']);
    expect(jobStatuses.filter((from) => canTransition(from, 'running'))).toEqual(['queued']);
  });

  test('are left for these and no others', () => {
    const moves = jobStatuses.map((from) => [
      from,
      jobStatuses.filter((to) => canTransition(from, to)),
    ]);
    expect(Object.fromEntries(moves.filter(([, to]) => to?.length !== 0))).toEqual({
      queued: ['running', 'dead', 'cancelled', 'skipped'],
      running: ['queued', 'succeeded', 'failed', 'timed_out', 'dead', 'cancelled', 'skipped'],
    });
  });
});

describe('a job that starts other jobs', () => {
  const cause: JobCause = {
    jobId: 'parent',
    rootJobId: 'root',
    sourceEventId: null,
    hops: 3,
    runtimeCaused: true,
  };

  test('is their parent, one hop further from the root', () => {
    expect(lineageOf(undefined)).toEqual({});
    expect(lineageOf(cause)).toEqual({
      parentJobId: 'parent',
      rootJobId: 'root',
      hops: 4,
      runtimeCaused: true,
    });
  });

  test('may not decide for a person', () => {
    expect(() => refuseDecision({}, 'an approval')).not.toThrow();
    expect(() => refuseDecision({ cause }, 'an approval')).toThrow(
      /an approval must be decided by a person/,
    );
  });

  test('may not continue a chain that has reached its limit', () => {
    expect(() => refuseLoop(undefined, 0)).not.toThrow();
    expect(() => refuseLoop(cause, 4)).not.toThrow();
    expect(() => refuseLoop(cause, 3)).toThrow(/job parent is the last in a chain of 3/);
  });
});

describe('the trace of a job', () => {
  const outer = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), isSampled: false };
  const context = JSON.stringify({ [TRACE_KEY]: formatTraceparent(outer) });

  test('is named after the first job of its lineage, and differs by attempt', () => {
    const job = makeClaimedJob({ rootJobId: '0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b' });
    expect(findTrace(job)).toEqual({
      traceId: '0199a1b2c3d47e5f8a9b0c1d2e3f4a5b',
      isSampled: true,
      parentSpanId: undefined,
    });
    expect(traceparentOf(job)).toMatch(/^00-0199a1b2c3d47e5f8a9b0c1d2e3f4a5b-[0-9a-f]{16}-01$/);
    expect(traceparentOf(job)).not.toBe(traceparentOf({ ...job, attempt: 2 }));
  });

  test('is that of its baggage, below the span of the caller', () => {
    const job = makeClaimedJob({ context });
    expect(findTrace(job)).toEqual({
      traceId: outer.traceId,
      isSampled: false,
      parentSpanId: outer.spanId,
    });
    expect(traceparentOf(job)).toMatch(/-00$/);
  });

  test('is below the run or the job that caused it', () => {
    const { parentSpanId: ofRun } = findTrace(makeClaimedJob({ context, runId: 'run' }));
    const { parentSpanId: ofJob } = findTrace(makeClaimedJob({ context, parentJobId: 'run' }));
    expect(ofRun).toMatch(/^[0-9a-f]{16}$/);
    expect(ofRun).not.toBe(outer.spanId);
    expect(ofJob).toBe(ofRun);
  });

  test('is not read from baggage that is missing, or that is a string', () => {
    const { traceId } = findTrace(makeClaimedJob());
    const { context: _, ...bare } = makeClaimedJob();
    expect(findTrace(makeClaimedJob({ context: JSON.stringify(TRACE_KEY) })).traceId).toBe(traceId);
    expect(findTrace(bare).traceId).toBe(traceId);
  });
});
