/** From facts to the chain that explains them, with plain data. */
import { quoteShell } from '../../src/base/text.ts';
import { describe, expect, test } from 'vitest';
import { createBareReport, type Attempt } from '../../src/job/attempt.ts';
import type { Job } from '../../src/job/job.ts';
import type { BreakerRow } from '../../src/schedule/breaker.ts';
import { partPaused } from '../../src/insight/findings/paused.ts';
import { explainJob } from '../../src/insight/why/job.ts';
import { at, holder, hookSignal, later, queued, waitingFor, type Waiting } from './why-texts.ts';

describe('a queued job', () => {
  test('without a blocker is next, and its submitter is shown', () => {
    const explanation = waitingFor();
    expect(explanation).toMatchObject({
      kind: 'job',
      id: 'job-9',
      state: 'queued',
      moves_at: null,
    });
    expect(explanation.verdict).toBe('It is next in line.');
    expect(explanation.chain.at(-1)).toEqual({
      fact: 'test requested it',
      evidence: 'submitted by api',
      at,
    });
    expect(explanation.commands).toEqual(['ductile job cancel job-9']);
  });

  test.each<[string, Waiting, RegExp, string | null, string]>([
    ['time', { job: { nextRetryAt: later } }, /not due yet/, later, 'job cancel'],
    [
      'its retry',
      { job: { nextRetryAt: later, retryCount: 2, lastError: 'no route\nto host' } },
      /attempt 2 of 4 failed/,
      later,
      'job cancel',
    ],
    [
      'a crash',
      { job: { nextRetryAt: later, crashCount: 1, suspect: true } },
      /crashed 1 time/,
      later,
      'cancel',
    ],
    [
      'its plugin',
      { plugin: { parallelism: 1 }, running: [holder('a')] },
      /worker runs 1 job at a time/,
      later,
      'job cancel a',
    ],
    [
      'a dependency',
      {
        job: { dependencyKey: 'db' },
        running: [holder('a', { dependencyKey: 'db', plugin: 'x' })],
      },
      /dependency db, held by job a/,
      later,
      'job cancel a',
    ],
    [
      'its own key',
      { job: { dedupeKey: 'k' }, running: [holder('a', { dedupeKey: 'k' })] },
      /dedupe key k is running/,
      later,
      'job cancel a',
    ],
    [
      'other suspects',
      { job: { suspect: true }, running: [holder('a', { suspect: true, plugin: 'x' })] },
      /runs alone/,
      later,
      'job cancel job-9',
    ],
    [
      'workers',
      { running: ['a', 'b', 'c', 'd'].map((id) => holder(id, { plugin: 'x' })) },
      /all 4 workers are busy/,
      later,
      'config set service.max_workers=5 --apply',
    ],
    [
      'those before it',
      { ahead: 3 },
      /3 jobs of worker came before it/,
      null,
      'job list --plugin worker',
    ],
    [
      'a process',
      { service: { hosts: [] } },
      /service is not running/,
      null,
      'ductile system start',
    ],
    [
      'the ledger',
      { service: { trouble: 'disk full' } },
      /database does not accept writes/,
      null,
      'doctor',
    ],
    [
      'somebody to resume',
      { service: { paused: { actor: 'cli:ann', at } } },
      /service is paused/,
      null,
      'ductile system resume',
    ],
    [
      'its tenant',
      { service: { tenant: { slug: 'acme', held: 'tenant_suspended', workers: 0 } } },
      /tenant acme is suspended/,
      null,
      'ductile tenant resume acme',
    ],
    [
      'the limit of its tenant',
      {
        service: { tenant: { slug: 'acme', held: undefined, workers: 1 } },
        running: [holder('a', { plugin: 'x' })],
      },
      /tenant acme may run 1 job at a time/,
      later,
      'ductile tenant limit acme --workers 2',
    ],
    [
      'a switch',
      {
        plugin: {
          holds: [
            partPaused.describe({
              noun: 'plugin',
              name: 'worker',
              author: { actor: 'api:bob', at },
            }),
          ],
        },
      },
      /plugin worker is disabled/,
      null,
      'ductile plugin enable worker',
    ],
    [
      'a runner',
      { plugin: { isKnown: false, state: 'disabled' } },
      /no running process has loaded/,
      null,
      'ductile config set plugins.worker.enabled=true --apply',
    ],
    [
      'a setup',
      {
        plugin: {
          init: {
            plugin: 'worker',
            kind: 'init',
            fingerprint: 'f',
            status: 'unhealthy',
            reason: 'no key',
            jobId: 'job-1',
            updatedAt: at,
          },
        },
      },
      /init of the plugin worker failed/,
      null,
      'ductile plugin init worker',
    ],
  ])('waits for %s', (_, facts, verdict, movesAt, command) => {
    const explanation = waitingFor(facts);
    expect(explanation.verdict.toLowerCase()).toMatch(new RegExp(verdict.source.toLowerCase()));
    expect(explanation.moves_at).toBe(movesAt);
    expect(explanation.commands.join('\n')).toContain(command);
  });

  test('that is not first in the queue of its key names the first', () => {
    const first = { id: 'job-8', isRunning: false };
    const explanation = waitingFor({ job: { dependencyKey: 'build' }, holder: first });
    expect(explanation.verdict).toBe(
      'It waits for the dependency build; job job-8 is first in the queue.',
    );
    expect(explanation.commands[0]).toBe('ductile why job-8');
    const itself = { id: queued.id, isRunning: false };
    expect(waitingFor({ job: { dependencyKey: 'build' }, holder: itself }).verdict).toBe(
      'It is next in line.',
    );
  });

  test('that is held twice moves when both are over, and not at the time of one', () => {
    const explanation = waitingFor({
      job: { nextRetryAt: later },
      service: { paused: { actor: null, at } },
    });
    expect(explanation.chain.map(({ fact }) => fact)).toContain(
      'The service is paused: no job starts',
    );
    expect(explanation.moves_at).toBeNull();
  });
});

function attempt(number: number, more: Partial<Attempt> = {}): Attempt {
  return {
    ...createBareReport('failed', 'exit', 'exit 1'),
    id: `log-${number}`,
    jobId: 'job-9',
    plugin: 'worker',
    command: 'poll',
    attempt: number,
    submittedBy: 'api',
    createdAt: at,
    startedAt: at,
    completedAt: later,
    processId: 'process-1',
    claimToken: 'token',
    parentJobId: null,
    sourceEventId: null,
    configSnapshotId: null,
    ...more,
  };
}

describe('an ended job', () => {
  const dead: Job = {
    ...queued,
    status: 'dead',
    reason: 'retries_exhausted',
    attempt: 4,
    lastError: 'exit 1',
    completedAt: later,
    sourceEventId: 'signal-1',
  };

  test('lists its attempts together, and its origin', () => {
    const links = [
      { kind: 'job', job: dead },
      { kind: 'signal', signal: hookSignal },
    ] as const;
    const attempts = [1, 2, 3, 4].map((number) => attempt(number));
    const explanation = explainJob({ job: dead, links, attempts });
    expect(explanation.verdict).toBe('All 4 attempts failed, none is left.');
    expect(explanation.chain.map(({ fact }) => fact)).toEqual([
      'all 4 attempts failed, none is left',
      'attempt 1 to 3 failed: exit 1',
      'the webhook deploys received a delivery',
    ]);
    expect(explanation.commands).toEqual(['ductile job retry job-9', 'ductile logs --job job-9']);
    expect(explanation).toMatchObject({ moves_at: null, moves_by: null });
  });

  test('shows the usage of its last attempt, as far as it was measured', () => {
    const factsOf = (cpuMs: number | null, memoryPeakBytes: number | null) => {
      const attempts = [attempt(1), attempt(2, { cpuMs, memoryPeakBytes })];
      return explainJob({ job: dead, links: [], attempts }).chain.map(({ fact }) => fact);
    };
    const both = 'attempt 2 used 1s500ms of CPU time and 64MiB of memory at most';
    expect(factsOf(1500, 64 * 1024 ** 2)).toContain(both);
    expect(factsOf(null, 4096)).toContain('attempt 2 used 4KiB of memory at most');
    expect(factsOf(null, null).join(' ')).not.toContain('used');
  });

  test('that was put aside, with its breaker open and its work done again, says all of it', () => {
    const breaker: BreakerRow = {
      plugin: 'worker',
      command: 'poll',
      state: 'open',
      failureCount: 3,
      openedAt: at,
      lastFailureAt: at,
      lastJobId: 'job-9',
      probeJobId: null,
      threshold: 3,
      resetAfterMs: 1000,
      updatedAt: at,
    };
    const job = { ...dead, reason: 'crashes_exhausted', crashCount: 2 };
    const explanation = explainJob({ job, links: [], attempts: [], breaker, retriedAs: 'job-10' });
    expect(explanation.verdict).toMatch(/crashed 2 times while it ran alone/);
    expect(explanation.commands).toEqual([
      'ductile why job-10',
      'ductile logs --job job-9',
      'ductile breaker reset worker',
    ]);
  });

  test('that is a step of a run is continued with the run', () => {
    const job = { ...dead, runId: 'run-1', stepId: 'send' };
    expect(explainJob({ job, links: [], attempts: [] }).commands[0]).toBe(
      'ductile run revive run-1',
    );
  });
});

test('a text from outside stays one word of a command', () => {
  expect(quoteShell("it's; rm -rf $HOME")).toBe(String.raw`'it'\''s; rm -rf $HOME'`);
  expect(quoteShell('plugins.mail.enabled')).toBe('plugins.mail.enabled');
});
