/** The executor with a runner that returns the end of a process without starting one. */
import { describe, expect, test } from 'vitest';
import { DuctileError, type ErrorCode } from '../../src/base/errors.ts';
import { makeLogger } from '../../src/base/log.ts';
import type { Generation } from '../../src/engine/generation.ts';
import { makeExecutor } from '../../src/job/executor.service.ts';
import type { AttemptOptions } from '../../src/job/run-plugin.service.ts';
import type { ClaimedJob } from '../../src/job/types.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Plugin } from '../../src/plugin/catalog.ts';
import type { ProcessEnd, ProcessSpec } from '../../src/plugin/process.ts';
import { maskPayload } from '../../src/signal/mask.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';
import { makeContext } from '../support/context.ts';

const plugin = {
  name: 'worker',
  directory: '/plugins/worker',
  entrypoint: '/plugins/worker/run',
  config: { key: 'hidden-key' },
  timeoutMs: () => 60_000,
  retry: { maxAttempts: 4, backoffBaseMs: 100 },
  limits: {},
  manifest: { commands: { poll: {}, handle: {} }, factOutputs: [] },
} as unknown as Plugin;

function makeEnd(stdout: string, stderr = ''): ProcessEnd {
  return {
    exit: { kind: 'exited', code: 0 },
    stopped: undefined,
    pid: 42,
    stdout: Buffer.from(stdout),
    stdoutOverflowed: false,
    stderr: Buffer.from(stderr),
    stderrTruncated: false,
    spawnMs: 1,
    runMs: 2,
    cpuMs: undefined,
    memoryPeakBytes: undefined,
  };
}

interface Run {
  readonly spec: ProcessSpec;
  readonly request: Record<string, unknown>;
  readonly options: AttemptOptions;
}

/** Executes attempts of one plugin. The test sets how the process ends. */
class World {
  end: ProcessEnd | Error = makeEnd('{"status":"ok","result":"done"}');
  /** Thrown when the credentials of the plugin are read. */
  credentialError: Error | undefined;
  hasAccess = false;
  readonly runs: Run[] = [];
  readonly tokens: string[] = [];
  readonly baseReads: string[] = [];
  readonly lines: Record<string, unknown>[] = [];

  async execute(job: ClaimedJob): Promise<Closing> {
    const ledger = {
      runs: {
        readBasePayload: (key: string) => {
          this.baseReads.push(key);
          return Promise.resolve('{"shared":1,"own":2}');
        },
        findStepSignal: () => Promise.resolve(undefined),
      },
    } as unknown as Ledger;
    const write = (line: string): unknown =>
      this.lines.push(JSON.parse(line) as Record<string, unknown>);
    const log = makeLogger({ level: 'warn', format: 'json', destination: { write } });
    const execute = makeExecutor(
      makeContext({ ledger, log }),
      {
        run: (_, spec, request, options) => {
          const text = request.toString();
          this.runs.push({ spec, request: JSON.parse(text) as Record<string, unknown>, options });
          options.onStarted?.(42);
          return this.end instanceof Error ? Promise.reject(this.end) : Promise.resolve(this.end);
        },
      },
      {
        reveal: ({ config }) =>
          this.credentialError === undefined
            ? Promise.resolve({ config, secrets: [{ value: 'hidden-key', shown: '[key]' }] })
            : Promise.reject(this.credentialError),
      },
      () =>
        this.hasAccess
          ? {
              api: { url: 'http://127.0.0.1:1', token: 'run-token-value' },
              secret: { value: 'run-token-value', shown: '[run token]' },
              end: () => void this.tokens.push('ended'),
            }
          : undefined,
      maskPayload,
    );
    const generation = {
      catalog: { plugins: new Map([['worker', plugin]]) },
      rules: { targetsOf: () => [], hopsMax: 9, dedupeTtlMs: 1000 },
      environment: { PATH: '/bin' },
    } as unknown as Generation;
    return await execute(job, new AbortController().signal, generation);
  }
}

describe('an attempt', () => {
  test('sends the job to its plugin, and closes it with the result', async () => {
    const world = new World();
    const closing = await world.execute(makeClaimedJob({ payload: '{"n":1}', awaitedBy: 'here' }));
    expect(closing).toMatchObject({
      claimToken: 'token',
      report: { status: 'succeeded', pid: 42, cpuMs: null },
      ending: { status: 'succeeded' },
    });
    expect(world.runs).toMatchObject([
      {
        spec: { timeoutMs: 60_000, env: { PATH: '/bin' } },
        request: { job_id: 'job-1', command: 'poll', payload: { n: 1 } },
        options: { isAwaited: true },
      },
    ]);
    expect(world.runs[0]?.request).not.toHaveProperty('api');
  });

  test('uses the timeout of its job before that of the plugin', async () => {
    const world = new World();
    await world.execute(makeClaimedJob({ timeoutMs: 5 }));
    expect(world.runs).toMatchObject([{ spec: { timeoutMs: 5 }, options: { isAwaited: false } }]);
  });

  test('that runs a step gets the shared payload of its block, and reads it once', async () => {
    const world = new World();
    const step = { runId: 'run', branchId: 'run.1', stepId: 'step', baseKey: 'run:1' };
    const closing = await world.execute(makeClaimedJob({ ...step, payload: '{"own":3}' }));
    expect(world.baseReads).toEqual(['run:1']);
    expect(world.runs[0]?.request).toMatchObject({ payload: { own: 3, shared: 1 } });
    expect(closing).toHaveProperty('output');
  });

  test('may use the API until its process has ended, and its secrets are masked', async () => {
    const world = new World();
    world.hasAccess = true;
    world.end = makeEnd('{"status":"ok","result":"run-token-value"}', 'hidden-key');
    const { report } = await world.execute(makeClaimedJob());
    expect(world.runs[0]?.request).toMatchObject({ api: { token: 'run-token-value' } });
    expect(world.tokens).toEqual(['ended']);
    expect(report).toMatchObject({
      result: '{"status":"ok","result":"[run token]"}',
      stderr: '[key]',
    });
  });
});

describe('an attempt that is not started', () => {
  test.each([
    ['plugin', makeClaimedJob({ plugin: 'gone' })],
    ['command', makeClaimedJob({ command: 'gone' })],
  ])('because there is no such %s fails for good', async (_, job) => {
    const { report, ending, signals } = await new World().execute(job);
    expect(report).toMatchObject({ status: 'failed', cause: 'unknown_command', queueMs: 7 });
    expect(ending).toMatchObject({ status: 'failed', reason: 'unknown_command' });
    expect(signals).toMatchObject([{ type: 'job.dead' }]);
  });

  test.each<readonly [ErrorCode, string, string]>([
    ['CREDENTIAL_NOT_FOUND', 'credential', 'failed'],
    ['CREDENTIAL_KEY_MISSING', 'credential', 'queued'],
    ['CREDENTIAL_KEY_INVALID', 'credential', 'queued'],
  ])('because of %s is a failure of the job', async (code, cause, status) => {
    const world = new World();
    world.credentialError = new DuctileError(code, 'no key');
    const { report, ending } = await world.execute(makeClaimedJob());
    expect(report).toMatchObject({ status: 'failed', cause });
    expect(report.error).toMatch(/^no key/);
    expect(ending).toMatchObject({ status, retryCount: 1 });
    expect(world.runs).toEqual([]);
  });

  test('because of its isolation says what to do, and is retried with its own backoff', async () => {
    const world = new World();
    world.end = new DuctileError('PLUGIN_NOT_ISOLATED', 'no namespaces', { hint: 'Enable them.' });
    world.hasAccess = true;
    const { report, ending } = await world.execute(makeClaimedJob({ backoffMs: 0 }));
    expect(report).toMatchObject({ cause: 'spawn', error: 'no namespaces. Enable them.' });
    expect(ending).toMatchObject({ status: 'queued', delayMs: 0, retryCount: 1 });
    expect(world.tokens).toEqual(['ended']);
  });
});

describe('an attempt that ends without a result', () => {
  test('because the spawner died is not charged, and can start again at once', async () => {
    const world = new World();
    world.end = new DuctileError('SPAWNER_FAILED', 'the spawner died');
    const { report, ending } = await world.execute(makeClaimedJob({ retryCount: 2 }));
    expect(report).toMatchObject({ status: 'released', cause: 'spawner_died', queueMs: 7 });
    expect(ending).toMatchObject({ status: 'queued', delayMs: 0, retryCount: 2 });
    expect(world.lines).toEqual([]);
  });

  test('because of a defect is not charged, is logged, and waits before it starts again', async () => {
    const world = new World();
    world.end = new TypeError('undefined is not a function');
    const { ending } = await world.execute(makeClaimedJob());
    expect(ending).toMatchObject({ status: 'queued', delayMs: 10_000, retryCount: 0 });
    expect(world.lines).toMatchObject([
      { message: 'an attempt failed because of a defect in Ductile', job_id: 'job-1' },
    ]);
  });
});
