import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canTransition, isTerminal, jobStatuses, type JobStatus } from '../../src/job/job.ts';

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
