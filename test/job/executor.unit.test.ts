import { describe, expect, test } from 'vitest';
import { closeAttempt, HOST_FULL_DELAY_MS } from '../../src/job/executor.service.ts';
import type { FollowRules } from '../../src/pipeline/follow-rules.ts';
import type { ClaimedJob } from '../../src/job/types.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import type { Plugin } from '../../src/plugin/catalog.ts';
import type { FactOutput } from '../../src/plugin/manifest.ts';
import type { ProcessEnd } from '../../src/plugin/process.ts';
import type { Reply } from '../../src/plugin/protocol.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

const rules: FollowRules = {
  targetsOf: () => [{ plugin: 'sink', command: 'handle', maxAttempts: 1 }],
  hopsMax: 9,
  dedupeTtlMs: 1000,
};

function makePlugin(factOutputs: readonly FactOutput[] = []): Plugin {
  const retry = { maxAttempts: 4, backoffBaseMs: 100 };
  return { name: 'worker', retry, manifest: { factOutputs } } as unknown as Plugin;
}

function makeEnd(more: Partial<ProcessEnd> = {}): ProcessEnd {
  return {
    exit: { kind: 'exited', code: 0 },
    stopped: undefined,
    pid: 42,
    stdout: Buffer.alloc(0),
    stdoutOverflowed: false,
    stderr: Buffer.alloc(0),
    stderrTruncated: false,
    spawnMs: 1.4,
    runMs: 20.6,
    cpuMs: 7.4,
    memoryPeakBytes: 1234,
    ...more,
  };
}

const okReply: Reply = {
  kind: 'ok',
  result: 'done',
  events: [],
  stateUpdates: undefined,
  logs: [],
  raw: '{"status":"ok"}',
};

const failure = { message: 'broken', retry: true, exit78: false, raw: 'printed' };

interface AttemptCase {
  readonly reply: Reply;
  readonly job?: ClaimedJob;
  readonly plugin?: Plugin;
  readonly end?: ProcessEnd | undefined;
  readonly random?: number;
}

function concludeWith(attempt: AttemptCase): Closing {
  const { reply, job = makeClaimedJob(), plugin = makePlugin(), random = 0 } = attempt;
  const end = 'end' in attempt ? attempt.end : makeEnd();
  return closeAttempt({ job, plugin, reply, end }, { rules, random, nowMs: 0 });
}

describe('a success', () => {
  test('ends the job under its claim, with the report of the process', () => {
    const { claimToken, report, ending, state, signals, jobs } = concludeWith({
      reply: okReply,
      job: makeClaimedJob({ retryCount: 2, claimToken: 'mine', queueMs: 11 }),
    });
    expect(claimToken).toBe('mine');
    expect(ending).toMatchObject({ status: 'succeeded', reason: null, retryCount: 2 });
    expect(report).toEqual({
      status: 'succeeded',
      cause: 'ok',
      error: null,
      result: '{"status":"ok"}',
      stderr: null,
      stderrTruncated: false,
      exitCode: 0,
      signal: null,
      pid: 42,
      queueMs: 11,
      spawnMs: 1,
      runMs: 21,
      cpuMs: 7,
      memoryPeakBytes: 1234,
      settleMs: null,
    });
    expect([state, signals, jobs]).toEqual([undefined, [], []]);
  });

  test('emits its events', () => {
    const events = [{ type: 'made', payload: {} }];
    const { signals, jobs } = concludeWith({ reply: { ...okReply, events } });
    expect(signals).toMatchObject([{ type: 'made', source: 'plugin:worker' }]);
    expect(jobs).toMatchObject([{ plugin: 'sink' }]);
  });

  test('keeps its stderr as far as it can be stored', () => {
    const end = makeEnd({ stderr: Buffer.from('a\0b\xff', 'latin1'), stderrTruncated: true });
    const { report } = concludeWith({ reply: okReply, end });
    expect(report).toMatchObject({ stderr: 'a\uFFFDb\uFFFD', stderrTruncated: true });
  });
});

describe('state', () => {
  const reply: Reply = { ...okReply, stateUpdates: { n: 1 } };
  const declared: FactOutput = {
    command: 'poll',
    factType: 'seen',
    compatibilityView: 'mirror_object',
  };

  test('is merged when nothing is declared for the command', () => {
    const merge = { kind: 'merge', value: '{"n":1}' };
    expect(concludeWith({ reply }).state).toEqual(merge);
    const plugin = makePlugin([{ ...declared, command: 'handle' }]);
    expect(concludeWith({ reply, plugin }).state).toEqual(merge);
  });

  test('is a snapshot when it is declared, mirrored if the view says so', () => {
    const snapshot = { kind: 'snapshot', factType: 'seen', value: '{"n":1}' };
    const mirrored = makePlugin([declared]);
    expect(concludeWith({ reply, plugin: mirrored }).state).toEqual({ ...snapshot, mirror: true });
    const apart = makePlugin([{ ...declared, compatibilityView: '' }]);
    expect(concludeWith({ reply, plugin: apart }).state).toEqual({ ...snapshot, mirror: false });
  });
});

const charged: readonly (readonly [cause: string, status: string, Reply])[] = [
  ['plugin_error', 'failed', { ...failure, kind: 'error', logs: [] }],
  ['timeout', 'timed_out', { ...failure, kind: 'timeout' }],
  ['signal', 'failed', { ...failure, kind: 'signal', signal: 'SIGSEGV' }],
  ['exit', 'failed', { ...failure, kind: 'exit', code: 1 }],
  ['protocol', 'failed', { ...failure, kind: 'protocol' }],
  ['spawn', 'failed', { ...failure, kind: 'unstarted', code: 'ENOENT', hostFull: false }],
];

describe.each(charged)('a failure by %s', (cause, status, reply) => {
  test('is charged and repeated after a growing time', () => {
    const job = makeClaimedJob({ retryCount: 1, suspect: true, interruptCount: 2 });
    const { report, ending, signals, jobs } = concludeWith({ reply, job, random: 0.5 });
    expect(report).toMatchObject({ status, cause, error: 'broken', result: 'printed' });
    expect(ending).toEqual({
      status: 'queued',
      reason: null,
      delayMs: 250,
      retryCount: 2,
      crashCount: 0,
      interruptCount: 0,
      suspect: false,
    });
    expect([signals, jobs]).toEqual([[], []]);
  });

  test('ends the job when the budget is used up, and is reported', () => {
    const job = makeClaimedJob({ retryCount: 3 });
    const { ending, signals, jobs } = concludeWith({ reply, job });
    const final = status === 'timed_out' ? 'timed_out' : 'dead';
    expect(ending).toMatchObject({ status: final, reason: 'retries_exhausted', retryCount: 4 });
    expect(signals).toMatchObject([{ type: 'job.dead', subjectId: 'job-1' }]);
    expect(JSON.parse(signals[0]?.data ?? '')).toMatchObject({ status: final, error: 'broken' });
    expect(jobs).toHaveLength(1);
  });

  test('is final when no further attempt can help', () => {
    const { ending, signals } = concludeWith({ reply: { ...reply, retry: false } as Reply });
    expect(ending).toMatchObject({ status: 'failed', reason: cause, retryCount: 1 });
    expect(signals).toHaveLength(1);
  });
});

const uncharged: readonly (readonly [cause: string, delayMs: number, Reply])[] = [
  ['shutdown', 0, { ...failure, kind: 'shutdown' }],
  ['fenced', 0, { ...failure, kind: 'fenced' }],
  [
    'host_full',
    HOST_FULL_DELAY_MS,
    { ...failure, kind: 'unstarted', code: 'EAGAIN', hostFull: true },
  ],
];

test.each(uncharged)('an end by %s is not charged', (cause, delayMs, reply) => {
  const job = makeClaimedJob({ retryCount: 3, crashCount: 2, interruptCount: 1, suspect: true });
  const { report, ending, signals, jobs } = concludeWith({ reply, job });
  expect(report).toMatchObject({ status: 'released', cause });
  expect(ending).toEqual({
    status: 'queued',
    reason: null,
    delayMs,
    retryCount: 3,
    crashCount: 2,
    interruptCount: 1,
    suspect: true,
  });
  expect([signals, jobs]).toEqual([[], []]);
});

test('a plugin that sets a delay is not started again before it', () => {
  const reply: Reply = { ...failure, kind: 'error', logs: [], retryAfterMs: 60_000 };
  expect(concludeWith({ reply }).ending).toMatchObject({ status: 'queued', delayMs: 60_000 });
  const final = concludeWith({ reply: { ...reply, retry: false } });
  expect(final.ending).toMatchObject({ status: 'failed', delayMs: 0 });
});

test('a cancellation ends the job without a report', () => {
  const { report, ending, signals, jobs } = concludeWith({
    reply: { ...failure, kind: 'cancelled' },
    job: makeClaimedJob({ retryCount: 3 }),
  });
  expect(report).toMatchObject({ status: 'cancelled', cause: 'cancelled' });
  expect(ending).toMatchObject({ status: 'cancelled', reason: 'cancelled', retryCount: 3 });
  expect([signals, jobs]).toEqual([[], []]);
});

test('a process that was never started has no times in the report', () => {
  const { report } = concludeWith({
    reply: { ...failure, kind: 'shutdown', raw: '' },
    end: undefined,
  });
  expect(report).toMatchObject({
    pid: null,
    spawnMs: null,
    runMs: null,
    cpuMs: null,
    memoryPeakBytes: null,
    exitCode: null,
    signal: null,
    stderr: null,
    stderrTruncated: false,
    result: null,
  });
});

test('a process that was killed names the signal, not a code', () => {
  const { report } = concludeWith({
    reply: { ...failure, kind: 'signal', signal: 'SIGKILL' },
    end: makeEnd({ exit: { kind: 'signalled', signal: 'SIGKILL' } }),
  });
  expect(report).toMatchObject({ exitCode: null, signal: 'SIGKILL' });
});
