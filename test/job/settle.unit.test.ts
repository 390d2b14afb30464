/** The settler with a ledger whose verdicts come from the test. */
import { describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { limits } from '../../src/base/limits.ts';
import { makeLogger } from '../../src/base/log.ts';
import {
  logAttemptEnd,
  logDuplicateRuns,
  logDuplicates,
  makeSettler,
} from '../../src/job/settle.service.ts';
import type { AttemptReport } from '../../src/job/attempt.ts';
import { endAsCancelled, endAsSucceeded, type Ending } from '../../src/job/outcome.ts';
import type { ClaimRequest, SettleVerdict } from '../../src/job/types.ts';
import type { Closing, Settlement } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { noRunEvents } from '../../src/pipeline/run/changes.ts';
import type { AdvancementFailure } from '../../src/pipeline/run/types.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';
import { makeContext } from '../support/context.ts';

const claim: ClaimRequest = { processId: 'me', token: 't', slots: 1, plugins: [] };

const report: AttemptReport = {
  status: 'succeeded',
  cause: 'ok',
  error: null,
  result: '{"status":"ok"}',
  stderr: 'said',
  stderrTruncated: false,
  exitCode: 0,
  signal: null,
  pid: 42,
  queueMs: 1,
  spawnMs: 2,
  runMs: 3,
  cpuMs: 4,
  memoryPeakBytes: 5,
  settleMs: 4,
};

/** A success with consequences. None of them may be left if it doesn't count as a success. */
function success(id: string, branchId: string | null = null): Closing {
  const job = makeClaimedJob({ id, branchId, attempt: 3 });
  return {
    job,
    claimToken: job.claimToken,
    report,
    ending: endAsSucceeded(job),
    state: { kind: 'merge', value: '{}' },
    signals: [],
    jobs: [{ id: `${id}-next` } as Closing['jobs'][number]],
    ...(branchId === null ? {} : { output: { events: [], result: null } }),
  };
}

type Answer = Error | Readonly<Record<string, SettleVerdict>>;

/** Returns one set of verdicts after the other. Closings without a verdict are settled. */
function makeWorld(...answers: readonly Answer[]) {
  const offers: (readonly Closing[])[] = [];
  const claims: (ClaimRequest | undefined)[] = [];
  const lines: Record<string, unknown>[] = [];
  const left = [...answers];
  const settle: Ledger['jobs']['settle'] = async (closings, asked) => {
    offers.push(closings);
    claims.push(asked);
    const answer = left.shift() ?? {};
    if (answer instanceof Error) throw answer;
    return toSettlement(closings, answer, asked);
  };
  const write = (line: string): unknown => lines.push(JSON.parse(line) as Record<string, unknown>);
  const log = makeLogger({ level: 'warn', format: 'json', destination: { write } });
  const rules = { targetsOf: () => [], hopsMax: 9, dedupeTtlMs: 1000 };
  const generation = { rules };
  const settler = makeSettler(makeContext({ ledger: { jobs: { settle } }, generation, log }));
  return { settler, offers, claims, lines };
}

function toSettlement(
  closings: readonly Closing[],
  verdicts: Readonly<Record<string, SettleVerdict>>,
  asked: ClaimRequest | undefined,
): Settlement {
  return {
    verdicts: new Map(closings.map(({ job }) => [job.id, verdicts[job.id] ?? 'settled'])),
    enqueued: closings.map(({ job }) => ({ jobId: `of ${job.id}` })),
    claimed: asked === undefined ? [] : [makeClaimedJob({ id: 'claimed' })],
    runEvents: { ...noRunEvents, failures: closings.map(({ job }) => toFailure(job.id)) },
  };
}

function toFailure(branchId: string): AdvancementFailure {
  return { branchId, error: 'failed' };
}

const idsOf = (closings: readonly Closing[]): string[] => closings.map(({ job }) => job.id);

test('results are reported as the ledger stored them, with the claimed jobs', async () => {
  const { settler, offers, claims } = makeWorld();
  const closings = [success('a'), success('b')];
  const settled = await settler.settle(closings, claim);
  expect(offers).toEqual([closings]);
  expect(claims).toEqual([claim]);
  expect(settled.written).toEqual(closings);
  expect(idsOf(settled.written)).toEqual(['a', 'b']);
  expect(settled.claimed.map(({ id }) => id)).toEqual(['claimed']);
});

test('a result that came too late is logged, and not offered again', async () => {
  const { settler, offers, lines } = makeWorld({ a: 'fenced' });
  const settled = await settler.settle([success('a'), success('b')]);
  expect(offers).toHaveLength(1);
  expect(idsOf(settled.written)).toEqual(['b']);
  expect(lines).toEqual([
    expect.objectContaining({ level: 'warn', job_id: 'a', attempt: 3, ended: 'ok' }),
  ]);
});

test('a job that was asked to stop ends as cancelled, with its history and without consequences', async () => {
  const { settler, offers, claims, lines } = makeWorld({ a: 'cancelled', c: 'cancelled' });
  const last = { ...success('c'), report: { ...report, error: 'its own' } };
  const settled = await settler.settle([success('a', 'run.1'), success('b'), last], claim);
  expect(claims).toEqual([claim, undefined]);
  const [, again = []] = offers;
  expect(again).toMatchObject([
    {
      claimToken: 'token',
      report: {
        ...report,
        status: 'cancelled',
        cause: 'cancelled',
        error: 'cancelled while it ran',
      },
      ending: { status: 'cancelled' },
      signals: [],
      jobs: [],
    },
    { report: { error: 'its own' } },
  ]);
  expect(again.map((one) => 'state' in one || 'output' in one)).toEqual([false, false]);
  expect([...settled.verdicts.values()]).toEqual(['settled', 'settled', 'settled']);
  expect(idsOf(settled.written)).toEqual(['b', 'a', 'c']);
  expect(settled.enqueued.map(({ jobId }) => jobId)).toEqual(
    ['a', 'b', 'c', 'a', 'c'].map((id) => `of ${id}`),
  );
  expect(settled.claimed.map(({ id }) => id)).toEqual(['claimed']);
  expect(settled.runEvents.failures).toEqual(['a', 'b', 'c', 'a', 'c'].map(toFailure));
  expect(lines).toEqual([]);
});

test('a job whose state would be too large fails for good and is reported as dead', async () => {
  const { settler, offers } = makeWorld({ a: 'oversize' });
  await settler.settle([success('a', 'run.1')]);
  expect(offers[1]).toMatchObject([
    {
      report: {
        ...report,
        status: 'failed',
        cause: 'state_too_large',
        error: expect.stringContaining(String(limits.stateBytesMax)) as unknown,
      },
      ending: { status: 'failed', reason: 'state_too_large', retryCount: 1, delayMs: 0 },
      signals: [{ type: 'job.dead', subjectId: 'a' }],
      jobs: [],
    },
  ]);
  expect(offers[1]?.[0]).not.toHaveProperty('state');
  expect(offers[1]?.[0]).not.toHaveProperty('output');
});

test('a job that was also asked to stop ends as cancelled after all', async () => {
  const { settler, offers, lines } = makeWorld({ a: 'oversize', b: 'fenced' }, { a: 'cancelled' });
  const settled = await settler.settle([success('a'), success('b')]);
  expect(offers.map(([one]) => one?.ending.status)).toEqual(['succeeded', 'failed', 'cancelled']);
  expect(offers[2]).toMatchObject([{ report: { pid: 42, stderr: 'said' }, signals: [] }]);
  expect([...settled.verdicts]).toEqual([
    ['a', 'settled'],
    ['b', 'fenced'],
  ]);
  expect(lines).toHaveLength(1);
});

const refused = new Error('cannot be stored');
const away = new DuctileError('LEDGER_UNAVAILABLE', 'away');

test("a batch that can't be stored is offered one by one, and only the bad one fails", async () => {
  const { settler, offers, claims, lines } = makeWorld(refused, {}, refused, {}, {});
  const settled = await settler.settle([success('a'), success('b'), success('c')], claim);
  expect(offers.map(idsOf)).toEqual([['a', 'b', 'c'], ['a'], ['b'], ['b'], ['c']]);
  expect(claims.slice(1)).toEqual([undefined, undefined, undefined, undefined]);
  expect(offers[3]?.[0]).toEqual({
    job: success('b').job,
    claimToken: 'token',
    report: {
      status: 'failed',
      cause: 'settle_error',
      error: 'the result could not be recorded: cannot be stored',
      result: null,
      stderr: null,
      stderrTruncated: false,
      exitCode: 0,
      signal: null,
      pid: 42,
      queueMs: 1,
      spawnMs: 2,
      runMs: 3,
      cpuMs: 4,
      memoryPeakBytes: 5,
      settleMs: null,
    },
    ending: expect.objectContaining({ status: 'failed', reason: 'settle_error' }) as unknown,
    signals: [expect.objectContaining({ type: 'job.dead' })],
    jobs: [],
    runs: [],
  });
  expect(idsOf(settled.written)).toEqual(['a', 'b', 'c']);
  expect(settled.written[1]?.ending.status).toBe('failed');
  expect(settled).toMatchObject({
    claimed: [],
    runEvents: { failures: ['a', 'b', 'c'].map(toFailure) },
  });
  expect(settled.enqueued).toHaveLength(3);
  expect(lines).toEqual([
    expect.objectContaining({ level: 'error', job_id: 'b', error: 'cannot be stored' }),
  ]);
});

test("a result that can't be stored in any form blocks no other and has no verdict", async () => {
  const { settler } = makeWorld(refused, refused, refused, {});
  const settled = await settler.settle([success('a'), success('b')]);
  expect([...settled.verdicts]).toEqual([['b', 'settled']]);
  expect(idsOf(settled.written)).toEqual(['b']);
});

test('an unavailable ledger is not charged: everything is repeated later', async () => {
  const whole = makeWorld(away);
  await expect(whole.settler.settle([success('a')], claim)).rejects.toBe(away);
  expect(whole.offers).toHaveLength(1);
  const alone = makeWorld(refused, {}, away);
  await expect(alone.settler.settle([success('a'), success('b')])).rejects.toBe(away);
  expect(alone.offers).toHaveLength(3);
});

test('a claim alone that fails is reported as it is', async () => {
  const { settler, offers } = makeWorld(refused);
  await expect(settler.settle([], claim)).rejects.toBe(refused);
  expect(offers).toHaveLength(1);
});

describe('the log lines of an attempt', () => {
  const job = makeClaimedJob();
  const logEnd = (ending: Ending, more: Partial<AttemptReport> = {}): Record<string, unknown>[] => {
    const lines: Record<string, unknown>[] = [];
    const write = (line: string): unknown =>
      lines.push(JSON.parse(line) as Record<string, unknown>);
    const log = makeLogger({ level: 'info', format: 'json', destination: { write } });
    const closing = { ...success('a'), report: { ...report, stderr: null, ...more }, ending };
    logAttemptEnd(closing, log);
    return lines;
  };
  const failed = { status: 'failed', cause: 'exit', error: 'broken' } as const;
  const retried: Ending = { ...endAsSucceeded(job), status: 'queued', delayMs: 100 };

  test.each<readonly [string, string, Ending, Partial<AttemptReport>]>([
    ['info', 'job succeeded', endAsSucceeded(job), {}],
    ['info', 'job cancelled', endAsCancelled(job), {}],
    ['error', 'job ended without success', { ...endAsSucceeded(job), status: 'dead' }, failed],
    ['warn', 'attempt failed; the job is queued again', retried, failed],
    ['warn', 'attempt cut short; the job is queued again', retried, { status: 'released' }],
  ])('have the level %s: %s', (level, message, ending, more) => {
    expect(logEnd(ending, more)).toMatchObject([{ level, message, job_id: 'a', run_ms: 3 }]);
  });

  test('name the delay of a retry and the error, and only what was measured', () => {
    const [line] = logEnd(retried, { ...failed, cpuMs: null, memoryPeakBytes: null });
    expect(line).toMatchObject({ retry_in_ms: 100, error: 'broken' });
    expect(line).not.toHaveProperty('cpu_ms');
    expect(line).not.toHaveProperty('memory_peak_bytes');
  });

  test('quote its stderr, and where it was cut off', () => {
    const [whole] = logEnd(endAsSucceeded(job), { stderr: 'said' });
    expect(whole).toMatchObject({ message: 'plugin wrote to stderr', stderr: 'said' });
    expect(whole).not.toHaveProperty('truncated_at_bytes');
    const [cut] = logEnd(endAsSucceeded(job), { stderr: 'said', stderrTruncated: true });
    expect(cut).toMatchObject({ truncated_at_bytes: limits.stderrBytesMax });
  });

  test('name the work that was dropped as a duplicate, and only that', () => {
    const lines: Record<string, unknown>[] = [];
    const write = (line: string): unknown =>
      lines.push(JSON.parse(line) as Record<string, unknown>);
    const log = makeLogger({ level: 'info', format: 'json', destination: { write } });
    logDuplicates([{ jobId: 'new' }, { jobId: 'b', duplicateOf: 'a', dedupeKey: 'key' }], log);
    logDuplicateRuns([{ runId: 'd', status: 'running', duplicateOf: 'c', dedupeKey: 'key' }], log);
    expect(lines).toMatchObject([
      { dedupe_key: 'key', existing_job_id: 'a' },
      { dedupe_key: 'key', existing_run_id: 'c' },
    ]);
  });
});
