/** Blockers of a job in the order of repair, and texts about running and ended jobs. */
import { describe, expect, test } from 'vitest';
import type { Job } from '../../src/job/job.ts';
import { credentialKeyMissing, credentialMissing } from '../../src/insight/findings/credentials.ts';
import { partPaused } from '../../src/insight/findings/paused.ts';
import { explainJob } from '../../src/insight/why/job.ts';
import type { ProgressFacts } from '../../src/insight/usual-duration.service.ts';
import type { RunStatus } from '../../src/pipeline/run/run.ts';
import { at, holder, later, plugin, queued, waitingFor } from './why-texts.ts';

const missing = credentialMissing.describe({
  name: 'imap',
  usedBy: ['plugin worker'],
  expiredAt: null,
});

describe('blockers', () => {
  const unopened = credentialKeyMissing.describe({
    keyId: 'old',
    credentials: ['imap'],
    webhooks: [],
  });
  const disabled = partPaused.describe({
    noun: 'plugin',
    name: 'worker',
    author: { actor: 'ann', at },
  });
  const paused = { actor: 'system:restore', at };

  test('are all listed, in the order of repair', () => {
    const explanation = waitingFor({
      service: { hosts: [], paused },
      plugin: {
        holds: [disabled, unopened],
      },
    });
    expect(explanation.blockers.map(({ fact }) => fact)).toEqual([
      'The key old is missing: plugins that need its secrets fail, and webhooks return 404',
      'the service is not running',
      'The service is paused: no job starts',
      'The plugin worker is disabled: its jobs wait',
    ]);
    expect(explanation.verdict).toMatch(/^The key old is missing/);
    expect(explanation.blockers[0]?.evidence).toBe('sealed with it: credential imap');
  });

  test('a resume is not suggested while a credential cannot be opened', () => {
    const explanation = waitingFor({ service: { paused }, plugin: { holds: [unopened] } });
    expect(explanation.commands[0]).toBe('ductile credential set imap');
    expect(explanation.commands).not.toContain('ductile system resume');
    expect(explanation.blockers[1]).toMatchObject({
      fact: 'The service is paused: no job starts',
      moves_by: expect.stringMatching(/^Repair the credentials first/),
    });
    expect(waitingFor({ service: { paused } }).commands).toContain('ductile system resume');
  });

  test('a plugin that a start makes known is not another blocker', () => {
    const explanation = waitingFor({ service: { hosts: [] }, plugin: { isKnown: false } });
    expect(explanation.blockers.map(({ fact }) => fact)).toEqual(['the service is not running']);
  });

  test('a missing credential is named', () => {
    const explanation = waitingFor({
      plugin: { holds: [missing] },
    });
    expect(explanation.verdict).toMatch(
      /^The credential imap is missing: plugin worker can't work without it\.$/,
    );
  });

  test('a hanging job is the cause, and more room is not suggested', () => {
    const usual = new Map([['a', { medianMs: 2000, p95Ms: 3000, attempts: 20 }]]);
    const more = { plugin: { parallelism: 1 }, running: [holder('a')], usual, now: later };
    const explanation = waitingFor(more);
    expect(explanation.verdict).toMatch(
      /runs 1 job at a time, and job a \(worker poll\) seems to hang/,
    );
    expect(explanation.chain[0]?.evidence).toMatch(/run for 1h; its command usually takes 2s/);
    expect(explanation.commands.slice(0, 2)).toEqual(['ductile job cancel a', 'ductile why a']);
    expect(explanation.commands.join(' ')).not.toContain('parallelism');
    const usualOne = waitingFor({ ...more, now: at });
    expect(usualOne.commands.join(' ')).toContain('plugins.worker.parallelism=2');
    const unsafe = waitingFor({
      ...more,
      now: at,
      plugin: { parallelism: 1, isConcurrencySafe: false },
    });
    expect(unsafe.commands.join(' ')).not.toContain('parallelism');
  });
});

describe('a running job', () => {
  const running: Job = { ...queued, status: 'running', startedAt: at, claimedBy: 'p1' };
  const explain = (progress: ProgressFacts) =>
    explainJob({ job: running, links: [], attempts: [], progress });
  const usual = { medianMs: 2000, p95Ms: 3000, attempts: 20 };

  test('says how long it has been silent and how long it usually takes', () => {
    const explanation = explain({ now: later, startedAt: at, lastRecordAt: undefined, usual });
    expect(explanation.verdict).toBe('Job job-9 of worker poll has held a worker slot for 1h.');
    expect(explanation.chain[0]?.evidence).toMatch(
      /has recorded nothing since; its command usually takes 2s \(95 % .* 3s\)/,
    );
    expect(explanation.progress).toEqual({
      running_ms: 3_600_000,
      silent_ms: 3_600_000,
      median_ms: 2000,
      p95_ms: 3000,
      attempts: 20,
    });
  });

  test('that recorded something lately has been silent since then', () => {
    const lastRecordAt = '2030-01-01T00:59:00.000Z';
    const explanation = explain({ now: later, startedAt: at, lastRecordAt, usual: undefined });
    expect(explanation.progress).toMatchObject({ silent_ms: 60_000, median_ms: null, attempts: 0 });
    expect(explanation.chain[0]?.evidence).toMatch(
      /last recorded something at 2030-01-01T00:59:00.000Z; too few attempts/,
    );
  });
});

describe('an ended job', () => {
  const dead: Job = { ...queued, status: 'dead', reason: 'attempt_failed', maxAttempts: 1 };
  const explain = (more: Partial<Parameters<typeof explainJob>[0]> & { job?: Job }) =>
    explainJob({ job: dead, links: [], attempts: [], ...more });

  test('with one attempt of one says so, and nothing of retries', () => {
    expect(explain({}).verdict).toBe(
      'Its only attempt failed; no other one is allowed (max_attempts: 1).',
    );
    const older: Job = { ...dead, reason: 'retries_exhausted' };
    expect(explain({ job: older }).verdict).toMatch(/^Its only attempt failed/);
  });

  test('whose plugin still lacks a credential is repaired before it is retried', () => {
    const explanation = explain({ plugin: { ...plugin, holds: [missing] } });
    expect(explanation.blockers).toMatchObject([
      { fact: expect.stringMatching(/^The credential imap/) },
    ]);
    expect(explanation.commands.slice(0, 2)).toEqual([
      'ductile credential set imap',
      'ductile job retry job-9',
    ]);
  });

  test('that was retried names the job that repeats it', () => {
    const explanation = explain({ retriedAs: 'job-10' });
    expect(explanation.chain[1]).toMatchObject({ fact: 'it was retried', evidence: 'job job-10' });
    expect(explanation.commands[0]).toBe('ductile why job-10');
  });

  test('in a step offers what its run allows', () => {
    const job: Job = { ...dead, runId: 'run-1', stepId: 'send' };
    const of = (status: RunStatus, revivedAs?: string) =>
      explain({ job, run: { id: 'run-1', status, revivedAs } }).commands[0];
    expect(of('halted')).toBe('ductile run revive run-1');
    expect(of('halted', 'run-2')).toBe('ductile why run-2');
    expect(of('succeeded')).toBe('ductile why run-1');
  });
});
