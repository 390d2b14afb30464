import { describe, expect, test } from 'vitest';
import type { JobStatus } from '../../src/job/job.ts';
import { findAgentOutcome, type AgentJob } from '../../src/webhook/agent-outcome.ts';

const accepted = { verdict: 'accepted', reason: null };

function job(status: JobStatus, lastError: string | null = null, more: Partial<AgentJob> = {}) {
  return { command: 'task', status, lastError, idempotencyKey: 's1:agent:0', ...more };
}

function statusOf(...jobs: readonly AgentJob[]): string | undefined {
  return findAgentOutcome(accepted, jobs, true)?.status;
}

describe('the word for a task', () => {
  test.each([
    ['succeeded', null, 'success'],
    ['queued', null, 'pending'],
    ['running', 'error:exit_1: an earlier attempt', 'pending'],
    ['failed', 'error:exit_3: it said so', 'error:exit_3'],
    ['failed', 'error:cli_not_found_my-cli.', 'error:cli_not_found_my-cli'],
    ['failed', 'the plugin fell over', 'error:exception'],
    ['failed', 'an error:exit_3 inside', 'error:exception'],
    ['failed', 'error: without a word', 'error:exception'],
    ['failed', null, 'error:exception'],
    ['dead', 'crashed ten times', 'error:exception'],
    ['timed_out', 'timed out after 10m', 'error:timeout'],
    ['cancelled', 'cancelled', 'error:cancelled'],
    ['cancelled', 'error:exit_1: an earlier attempt', 'error:cancelled'],
  ] as const)('%s with %s is %s', (status, error, word) => {
    expect(statusOf(job(status, error))).toBe(word);
  });
});

describe('the word for a conversation', () => {
  const turn = (status: JobStatus, place: number) =>
    job(status, 'error:exit_1', { command: 'turn', idempotencyKey: `s1:agent:${place}` });

  test('is success when one has answered, once all have ended', () => {
    expect(statusOf(turn('failed', 0), turn('succeeded', 1))).toBe('success');
    expect(statusOf(turn('running', 0), turn('succeeded', 1))).toBe('pending');
  });

  test('says that no user replied, whatever the reasons were', () => {
    const outcome = findAgentOutcome(accepted, [turn('failed', 0), turn('dead', 1)], true);
    const word = 'error:no_response';
    expect(outcome).toEqual({ status: word, error: word, detail: 'error:exit_1' });
  });
});

test('a conversation whose turns were all cancelled says so', () => {
  const turn = (status: JobStatus, place: number) =>
    job(status, status, { command: 'turn', idempotencyKey: `s1:agent:${place}` });
  expect(statusOf(turn('cancelled', 0), turn('cancelled', 1))).toBe('error:cancelled');
  expect(statusOf(turn('cancelled', 0), turn('failed', 1))).toBe('error:no_response');
});

describe('the outcome of the last job counts', () => {
  test('a retry has the same key and counts', () => {
    expect(statusOf(job('failed', 'error:exit_1'), job('succeeded'))).toBe('success');
  });

  test('a replay has another key and counts', () => {
    const replayed = { idempotencyKey: 's2:agent:0' };
    expect(statusOf(job('succeeded'), job('failed', 'error:timeout', replayed))).toBe(
      'error:timeout',
    );
  });
});

test('a delivery without a job is reported by its verdict', () => {
  const skipped = { verdict: 'skipped', reason: 'skipped:quiet_hours' };
  expect(findAgentOutcome(skipped, [], true)).toMatchObject({
    status: skipped.reason,
    error: null,
  });
  const failed = { verdict: 'failed', reason: 'error:no_wake_handler: nobody is allowed' };
  expect(findAgentOutcome(failed, [], true)).toMatchObject({ error: 'error:no_wake_handler' });
  const other = { verdict: 'failed', reason: 'there is no plugin agent' };
  expect(findAgentOutcome(other, [], true)).toMatchObject({ error: 'error:exception' });
  expect(findAgentOutcome(other, [], false)).toBeUndefined();
  expect(findAgentOutcome(accepted, [], true)).toBeUndefined();
});
