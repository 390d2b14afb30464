/** The results of operations, over a real ledger. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { makeId } from '../../src/base/ids.ts';
import { overlayLedger } from '../../src/ledger/ledger.ts';
import { ownerOf } from '../../src/operation/context.ts';
import type { JsonOutput } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { pause } from '../support/direct.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeStubEngine, runOne, type StubEngine } from '../support/stub-engine.ts';

let engine: StubEngine;

beforeEach(async () => void (engine = await makeStubEngine()));

afterEach(async () => {
  await engine.ledger.close();
});

/** Calls an operation and checks the result against its documented schema. */
async function ask(name: string, input: unknown = {}): Promise<JsonOutput> {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(name);
  const output = await invoke(
    operation,
    { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' },
    input,
  );
  if (output['dry_run'] !== true) {
    expect(operation.output.strict().parse(JSON.parse(JSON.stringify(output)))).toEqual(output);
  }
  return output;
}

async function submit(plugin = 'echo', command = 'poll'): Promise<string> {
  const output = await ask('plugin.run', { plugin, command });
  return String(output['job_id']);
}

describe('plugin.run', () => {
  test('queues a job for the caller, and does not wait', async () => {
    const output = await ask('plugin.run', {
      plugin: 'echo',
      payload: { a: 1 },
      context: { b: 2 },
    });
    const [job] = await engine.ledger.jobs.list({ limit: 1 });
    expect(output).toEqual({
      job_id: job?.id,
      plugin: 'echo',
      command: 'poll',
      status: 'queued',
    });
    expect(job).toMatchObject({ actor: 'cli:ann', submittedBy: 'cli' });
    expect(engine.submitted).toMatchObject([{ payload: { a: 1 }, context: { b: 2 } }]);
  });

  test('never says of a job that was accepted that nothing was', async () => {
    engine.waitFor = () => Promise.reject(new DuctileError('LEDGER_UNAVAILABLE', 'gone'));
    const pending = ask('plugin.run', { plugin: 'echo', wait: true });
    const error = await pending.catch((thrown: unknown) => thrown);
    const [job] = await engine.ledger.jobs.list({ limit: 1 });
    expect(error).toMatchObject({ code: 'LEDGER_UNCERTAIN', details: { job_id: job?.id } });
  });

  test('takes handle where there is no poll', async () => {
    expect(await ask('plugin.run', { plugin: 'mail' })).toMatchObject({ command: 'handle' });
  });

  test.each([true, '10s'])('waits for the end with wait %j', async (wait) => {
    engine.work = async () =>
      void (await runOne(engine, { result: '{"status":"ok"}', stderr: 'hm' }));
    const output = await ask('plugin.run', { plugin: 'echo', wait });
    expect(output).toMatchObject({ status: 'succeeded', result: { status: 'ok' }, stderr: 'hm' });
    expect(output['duration_ms']).toBeTypeOf('number');
    expect(output['timeout_exceeded']).toBe(false);
  });

  test('says that the wait was over first', async () => {
    const output = await ask('plugin.run', { plugin: 'echo', wait: '10ms' });
    expect(output).toMatchObject({ status: 'queued', timeout_exceeded: true });
  });

  test('names the job that does the same already', async () => {
    const first = await ask('plugin.run', { plugin: 'echo', dedupe_key: 'k' });
    const second = await ask('plugin.run', { plugin: 'echo', dedupe_key: 'k' });
    expect(second).toMatchObject({ duplicate: true, job_id: first['job_id'] });
  });

  test.each([
    [{ plugin: 'eco' }, 'PLUGIN_NOT_FOUND', 'Did you mean echo?'],
    [{ plugin: 'asleep' }, 'PLUGIN_NOT_FOUND', 'Set plugins.asleep.enabled to true.'],
    [{ plugin: 'vault' }, 'PLUGIN_INVALID', 'Set plugins.vault.config.token.'],
    [{ plugin: 'mail', command: 'handel' }, 'COMMAND_NOT_FOUND', 'Did you mean handle?'],
    [{ plugin: 'mail', command: 'toString' }, 'COMMAND_NOT_FOUND', 'The commands are handle.'],
    [{ plugin: 'mail', paylod: {} }, 'INPUT_INVALID', 'Did you mean payload?'],
  ])('%j is refused as %s', async (input, code, hint) => {
    await expect(ask('plugin.run', input)).rejects.toMatchObject({ code, hint });
    expect(engine.submitted).toEqual([]);
  });

  test('says why a plugin did not load', async () => {
    await expect(ask('plugin.run', { plugin: 'broken' })).rejects.toMatchObject({
      code: 'PLUGIN_INVALID',
      message: 'the plugin broken did not load: protocol must be 2',
      place: 'broken/manifest.yaml:3:1',
    });
  });

  test.each([[{ plugin: 'mail', payload: [] }], [{ plugin: 'mail', wait: '25d' }], [{}], [null]])(
    'bad input %j names its field',
    async (input) => {
      await expect(ask('plugin.run', input)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    },
  );
});

describe('a dry run', () => {
  test('with plugin.run checks everything and queues nothing', async () => {
    const output = await ask('plugin.run', { plugin: 'echo', dry_run: true });
    expect(output).toEqual({
      dry_run: true,
      plan: ['A job of echo poll (a read command) will be queued.'],
    });
    expect(engine.submitted).toEqual([]);
    await expect(ask('plugin.run', { plugin: 'x', dry_run: true })).rejects.toMatchObject({
      code: 'PLUGIN_NOT_FOUND',
    });
  });

  test('with job.cancel leaves the job as it is', async () => {
    const id = await submit();
    const output = await ask('job.cancel', { id, dry_run: true });
    expect(output['plan']).toEqual([
      expect.stringContaining('before it starts'),
      expect.stringContaining('stays cancelled'),
    ]);
    expect(await ask('job.inspect', { id })).toMatchObject({ status: 'queued' });
  });

  test('with pause, resume and backup does nothing', async () => {
    const to = join(await makeDirectory(), 'copy.db');
    await ask('system.backup', { to, dry_run: true });
    await ask('system.pause', { dry_run: true });
    expect(existsSync(to)).toBe(false);
    expect(engine.status().state).toBe('running');
    await pause(engine);
    await ask('system.resume', { dry_run: true });
    expect(engine.status().state).toBe('paused');
  });

  test('is never taken for a real one, however it is spelled', async () => {
    await expect(ask('system.pause', { dry_run: 'yes' })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    });
    await expect(ask('job.list', { dry_run: true })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    });
    expect(engine.status().state).toBe('running');
  });
});

describe('job.list', () => {
  test('filters, also by older words, and pages to the end', async () => {
    const ids = [
      await submit('echo'),
      await submit('mail', 'handle'),
      await submit('echo', 'handle'),
    ];
    await runOne(engine);
    const list = async (input: object): Promise<unknown[]> =>
      ((await ask('job.list', input))['jobs'] as { job_id: string }[]).map((job) => job.job_id);
    expect(await list({})).toEqual(ids.toReversed());
    expect(await list({ plugin: 'echo', command: 'handle' })).toEqual([ids[2]]);
    expect(await list({ status: ['ok'] })).toEqual([ids[0]]);
    expect(await list({ status: ['pending', 'running'] })).toEqual([ids[2], ids[1]]);

    const page = await ask('job.list', { limit: 2 });
    const rest = await ask('job.list', { limit: 2, cursor: page['next_cursor'] });
    expect((rest['jobs'] as unknown[]).length).toBe(1);
    expect([rest['next_cursor'], rest['total']]).toEqual([null, 3]);
  });

  test.each([{ limit: 0 }, { limit: 1001 }, { status: ['gone'] }, { plugin: 'a b' }])(
    'refuses %j',
    async (input) => {
      await expect(ask('job.list', input)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    },
  );
});

describe('job.inspect', () => {
  test('shows attempts, signals, children, parent and cause', async () => {
    const parentId = await submit();
    const [signalId, childId] = [makeId(), makeId()];
    await runOne(
      engine,
      { result: '{"status":"ok"}' },
      {
        signals: [
          {
            id: signalId,
            type: 'echo.said',
            source: 'plugin:echo',
            data: '{"x":1}',
            hops: 1,
            correlationId: parentId,
            jobId: parentId,
            jobAttempt: 1,
            eventIndex: 0,
          },
        ],
        jobs: [
          {
            id: childId,
            plugin: 'mail',
            command: 'handle',
            payload: '{}',
            submittedBy: 'route',
            actor: 'plugin:echo',
            maxAttempts: 1,
            parentJobId: parentId,
            rootJobId: parentId,
            sourceEventId: signalId,
          },
        ],
      },
    );
    await runOne(engine, {
      status: 'failed',
      cause: 'protocol',
      error: 'no JSON',
      result: 'Traceback',
      stderr: 'oh\nno',
    });

    expect(await ask('job.inspect', { id: parentId })).toMatchObject({
      status: 'succeeded',
      attempts: [{ attempt: 1, status: 'succeeded', cause: 'ok', run_ms: 12 }],
      signals: [{ signal_id: signalId, type: 'echo.said', data: { x: 1 } }],
      children: [{ job_id: childId, plugin: 'mail' }],
      parent: null,
      cause: null,
    });
    const child = await ask('job.inspect', { id: childId });
    expect(child).toMatchObject({
      status: 'failed',
      reason: 'protocol',
      result: 'Traceback',
      attempts: [{ cause: 'protocol', last_error: 'no JSON', stderr: 'oh\nno' }],
      parent: { job_id: parentId },
      cause: { signal_id: signalId, source: 'plugin:echo' },
    });
    expect(JSON.stringify(child)).not.toContain('token');
  });

  test('takes the beginning of an id when it fits one job', async () => {
    const [first, second] = [await submit(), await submit()];
    let shared = 0;
    while (first[shared] === second[shared]) shared += 1;
    expect(
      await ask('job.inspect', { id: first.slice(0, shared + 1).toUpperCase() }),
    ).toMatchObject({
      job_id: first,
    });
    await expect(ask('job.inspect', { id: first.slice(0, shared) })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringContaining('2 jobs'),
      details: { candidates: [second, first] },
    });
    await expect(ask('job.inspect', { id: makeId() })).rejects.toMatchObject({
      code: 'JOB_NOT_FOUND',
    });
    await expect(ask('job.inspect', { id: 'ffff' })).rejects.toMatchObject({
      code: 'JOB_NOT_FOUND',
    });
    await expect(ask('job.inspect', { id: '%' })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  });
});

test('job.logs lists attempts by plugin, job and end', async () => {
  const [first, second] = [await submit('echo'), await submit('mail', 'handle')];
  await runOne(engine);
  await runOne(engine, { status: 'failed', cause: 'exit', error: 'exit 1', exitCode: 1 });
  const list = async (input: object): Promise<unknown[]> =>
    ((await ask('job.logs', input))['logs'] as { job_id: string }[]).map((log) => log.job_id);
  expect(new Set(await list({}))).toEqual(new Set([first, second]));
  expect(await list({ plugin: 'mail' })).toEqual([second]);
  expect(await list({ job_id: first })).toEqual([first]);
  expect(await list({ status: 'failed' })).toEqual([second]);
  expect(await list({ job_id: makeId() })).toEqual([]);
});

test('job.cancel ends a queued job, and leaves a finished one', async () => {
  const id = await submit();
  expect(await ask('job.cancel', { id })).toMatchObject({ job_id: id, status: 'cancelled' });
  const done = await submit();
  await runOne(engine);
  expect(await ask('job.cancel', { id: done })).toMatchObject({ status: 'succeeded' });
  await expect(ask('job.cancel', { id: makeId() })).rejects.toMatchObject({
    code: 'JOB_NOT_FOUND',
  });
});

test('queue.list shows what runs before what waits, oldest first', async () => {
  const ids = [await submit(), await submit(), await submit()];
  await engine.ledger.jobs.claim({
    processId: 'stub',
    token: 't',
    slots: 1,
    plugins: [{ name: 'echo', parallelism: 1, leaseMs: {}, leaseDefaultMs: 60_000 }],
  });
  const output = await ask('queue.list');
  expect(output).toMatchObject({ running: 1, ready: 2, delayed: 0 });
  expect(output['jobs']).toMatchObject([
    { job_id: ids[0], status: 'running' },
    { job_id: ids[1], status: 'queued' },
    { job_id: ids[2], status: 'queued' },
  ]);
  expect((await ask('queue.list', { limit: 1 }))['jobs']).toMatchObject([{ job_id: ids[0] }]);
});

test('plugin.list shows what can run and what cannot', async () => {
  expect(await ask('plugin.list')).toMatchObject({
    plugins: [
      { name: 'echo', commands: ['poll', 'handle'], types: { poll: 'read', handle: 'write' } },
      { name: 'mail', parallelism: 2 },
    ],
    dormant: { vault: ['token'] },
    disabled: ['asleep'],
    problems: [{ plugin: 'broken', message: 'protocol must be 2' }],
  });
});

describe('system', () => {
  test('status has the queue, the plugins, the last jobs and the processes', async () => {
    const jobId = await submit();
    expect(await ask('system.status')).toMatchObject({
      state: 'running',
      uptime_seconds: 61,
      ledger: 'sqlite',
      queue: { ready: 1, running: 0 },
      plugins: { loaded: 2, problems: [{ plugin: 'broken' }], views: [] },
      last_jobs: [{ job_id: jobId, status: 'queued' }],
      processes: [{ process_id: 'stub', pid: 7, last_heartbeat_at: expect.stringMatching(/Z$/) }],
    });
  });

  test.each([
    ['running', 'ok'],
    ['paused', 'ok'],
    ['starting', 'starting'],
    ['degraded', 'degraded'],
    ['stopping', 'degraded'],
  ] as const)('health of a %s engine is %s', async (state, status) => {
    await submit();
    engine.set({ state });
    expect(await ask('system.health')).toEqual({
      status,
      uptime_seconds: 61,
      queue_depth: 1,
      plugins_loaded: 2,
      plugins_circuit_open: 0,
      as_of: expect.stringMatching(/Z$/),
    });
  });

  test.each([
    ['fails', () => Promise.reject(new Error('gone'))],
    ['does not answer', () => new Promise<never>(() => undefined)],
  ])('health is degraded when the ledger %s', async (_, readStatistics) => {
    engine = { ...engine, ledger: overlayLedger(engine.ledger, { jobs: { readStatistics } }) };
    expect(await ask('system.health')).toMatchObject({ status: 'degraded', queue_depth: null });
  });

  test('check finds a sound ledger sound', async () => {
    expect(await ask('system.check')).toEqual({ ok: true, problems: [] });
  });

  test('backup writes a file, to an absolute path only', async () => {
    const to = join(await makeDirectory(), 'copy.db');
    expect(await ask('system.backup', { to })).toMatchObject({ path: to });
    expect(existsSync(to)).toBe(true);
    await expect(ask('system.backup', { to })).rejects.toMatchObject({ code: 'BACKUP_REFUSED' });
    await expect(ask('system.backup', { to: 'copy.db' })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: 'to',
    });
  });

  test('pause and resume return the state after them', async () => {
    expect(await ask('system.pause')).toMatchObject({ state: 'paused' });
    expect(await ask('system.resume')).toMatchObject({ state: 'running' });
  });
});
