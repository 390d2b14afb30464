/** Operations that change the system, and the record that they leave. */
import { toCanonicalJson } from '../../src/base/json.ts';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { callerKey } from '../../src/directive/directive.ts';
import { makePrincipal, type Principal } from '../../src/access/tokens.service.ts';
import type { DirectiveInsert } from '../../src/ledger/directive-work.ts';
import { ownerOf } from '../../src/operation/context.ts';
import type { JsonOutput } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { runOnce, type KeyedRequest } from '../../src/operation/idempotency.ts';
import { pausing } from '../support/ledger/drafts.ts';
import { makeStubEngine, runOne, type StubEngine } from '../support/stub-engine.ts';

let engine: StubEngine;

beforeEach(async () => {
  engine = await makeStubEngine();
});

afterEach(async () => {
  await engine.ledger.close();
});

interface Asker {
  readonly principal?: Principal;
  readonly subjectId?: string;
}

async function ask(name: string, input: unknown = {}, asker: Asker = {}): Promise<JsonOutput> {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(name);
  const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli', ...asker } as const;
  const output = await invoke(operation, context, input);
  if (output['dry_run'] !== true) {
    expect(operation.output.strict().parse(JSON.parse(JSON.stringify(output)))).toEqual(output);
  }
  return output;
}

async function submit(plugin = 'mail'): Promise<string> {
  return String((await ask('plugin.run', { plugin, command: 'handle' }))['job_id']);
}

describe('job.cancel', () => {
  test('is recorded once, however often the request is repeated', async () => {
    const id = await submit();
    const first = await ask('job.cancel', { id });
    expect(first).toMatchObject({ job_id: id, status: 'cancelled' });
    expect(await ask('job.cancel', { id })).toEqual(first);
    expect(await ask('directive.list')).toMatchObject({
      directives: [
        {
          directive_id: first['directive_id'],
          type: 'job.cancel',
          target: `job:${id}`,
          actor: 'cli:ann',
          status: 'completed',
          params: { job_id: id },
          result: { job_id: id, outcome: 'cancelled' },
        },
      ],
      next_cursor: null,
    });
  });
});

describe('job.retry', () => {
  test('returns the new job, or the one that is running', async () => {
    const id = await submit();
    await expect(ask('job.retry', { id })).rejects.toMatchObject({ code: 'JOB_OPEN' });
    await runOne(engine, { status: 'failed', cause: 'exit', error: 'broken' });
    expect(await ask('job.retry', { id, dry_run: true })).toMatchObject({ dry_run: true });
    const next = await ask('job.retry', { id });
    expect(next).toMatchObject({ retry_of: id, status: 'queued', outcome: 'queued' });
    const again = await ask('job.retry', { id });
    expect(again).toMatchObject({ job_id: next['job_id'], outcome: 'under_way' });
  });

  test('repeated under the key of its request returns the same job', async () => {
    const id = await submit();
    await runOne(engine, { status: 'failed', cause: 'exit', error: 'broken' });
    const subjectId = makeId();
    const first = await ask('job.retry', { id }, { subjectId });
    await runOne(engine);
    const again = await ask('job.retry', { id }, { subjectId });
    expect(again['job_id']).toBe(first['job_id']);
    expect(again['directive_id']).toBe(first['directive_id']);
  });
});

describe('jobs.cancel and jobs.retry', () => {
  test('take a filter, and say the count first', async () => {
    for (let n = 0; n < 3; n += 1) await submit();
    const otherJob = await submit('echo');
    const filter = { plugin: 'mail', older_than: '0s' };
    expect(await ask('jobs.cancel', { ...filter, dry_run: true })).toEqual({
      dry_run: true,
      plan: ['3 jobs will be cancelled.', expect.stringContaining('stays cancelled')],
    });
    expect(await ask('jobs.cancel', filter)).toMatchObject({ jobs: 3, cancelled: 3, requested: 0 });
    expect(await ask('job.list', { status: ['queued'] })).toMatchObject({
      jobs: [{ job_id: otherJob }],
    });
    expect(await ask('jobs.retry', { plugin: 'mail', status: ['cancelled'] })).toMatchObject({
      jobs: 3,
      queued: 3,
    });
  });

  test('want a filter', async () => {
    for (const name of ['jobs.cancel', 'jobs.retry']) {
      await expect(ask(name, {})).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    }
  });
});

describe('job.tree', () => {
  test('shows the chain from its beginning, even if rows are deleted and only logs are left', async () => {
    const rootId = await submit();
    const [childId, grandchildId] = [makeId(), makeId()];
    const child = {
      id: childId,
      plugin: 'echo',
      command: 'poll',
      payload: '{}',
      submittedBy: 'route',
      actor: 'plugin:mail',
      maxAttempts: 2,
      parentJobId: rootId,
      rootJobId: rootId,
    } as const;
    await runOne(engine, {}, { jobs: [child] });
    const grandchild = { ...child, id: grandchildId, parentJobId: childId };
    await runOne(engine, {}, { jobs: [grandchild] });
    const shape = async (): Promise<unknown[]> => {
      const output = await ask('job.tree', { id: grandchildId });
      expect(output).toMatchObject({ root_job_id: rootId, job_id: grandchildId, complete: true });
      return (output['jobs'] as Record<string, unknown>[]).map((node) => [
        node['depth'],
        node['job_id'],
        node['status'],
        node['logged_only'],
      ]);
    };
    expect(await shape()).toEqual([
      [0, rootId, 'succeeded', false],
      [1, childId, 'succeeded', false],
      [2, grandchildId, 'queued', false],
    ]);
    await engine.ledger.history.prune({ what: 'jobs', olderThanMs: 0, limit: 9 });
    expect(await shape()).toEqual([
      [0, rootId, 'succeeded', true],
      [1, childId, 'succeeded', true],
      [2, grandchildId, 'queued', false],
    ]);
  });

  test('hangs a retry below the job whose work it does', async () => {
    const id = await submit();
    await runOne(engine, { status: 'failed', cause: 'exit', error: 'broken' });
    const { job_id: next } = await ask('job.retry', { id });
    expect(await ask('job.tree', { id: String(next) })).toMatchObject({
      root_job_id: id,
      jobs: [
        { job_id: id, depth: 0, status: 'failed' },
        { job_id: next, depth: 1, retry_of: id, cause_job_id: id },
      ],
    });
  });

  test('knows when there is none', async () => {
    await expect(ask('job.tree', { id: makeId() })).rejects.toMatchObject({
      code: 'JOB_NOT_FOUND',
    });
  });
});

describe('plugin.disable', () => {
  test('shows in the list, and is undone by plugin.enable', async () => {
    const enabled = async (): Promise<unknown> => {
      const { plugins } = await ask('plugin.list');
      return (plugins as Record<string, unknown>[]).map(({ name, enabled: on }) => [name, on]);
    };
    await ask('plugin.disable', { plugin: 'mail' });
    expect(await enabled()).toEqual([
      ['echo', true],
      ['mail', false],
    ]);
    await ask('plugin.enable', { plugin: 'mail' });
    expect(await enabled()).toEqual([
      ['echo', true],
      ['mail', true],
    ]);
    await expect(ask('plugin.disable', { plugin: 'male' })).rejects.toMatchObject({
      code: 'PLUGIN_NOT_FOUND',
      hint: expect.stringContaining('mail'),
    });
  });
});

describe('tokens', () => {
  test('show their text once', async () => {
    Object.assign(engine, { config: { plugins: {}, api: { auth: { tokens: [] } } } });
    const input = { name: 'deploy', scopes: ['jobs:ro'], expires: '1d' };
    const subjectId = makeId();
    const made = await ask('token.create', input, { subjectId });
    expect(made).toMatchObject({ name: 'deploy', token: expect.stringMatching(/^duct_.{40,}$/) });
    const again = await ask('token.create', input, { subjectId });
    expect(again).toEqual({ ...made, token: null });
    await expect(ask('token.create', input)).rejects.toMatchObject({ code: 'TOKEN_EXISTS' });
    const rotated = await ask('token.rotate', { token: 'deploy' });
    expect(rotated['token']).not.toBe(made['token']);
    expect(await ask('token.list')).toMatchObject({
      tokens: [{ name: 'deploy', place: 'ledger', created_by: 'cli:ann', expired: false }],
    });
    expect(await ask('token.revoke', { token: 'deploy' })).toMatchObject({ revoked: true });
    expect(await ask('token.list')).toEqual({ tokens: [], next_cursor: null });
    const gone = ask('token.revoke', { token: 'deploy' });
    await expect(gone).rejects.toMatchObject({ code: 'TOKEN_NOT_FOUND' });
  });

  test('are made by owners only, on either way', async () => {
    const principal = makePrincipal('token:x', ['tokens:rw', 'directives:rw']);
    const params = { name: 'mine', scopes: ['*'] };
    for (const pending of [
      ask('token.create', params, { principal }),
      ask('directive.request', { type: 'token.create', params }, { principal }),
    ]) {
      await expect(pending).rejects.toMatchObject({ code: 'FORBIDDEN' });
    }
  });
});

describe('a request under a key', () => {
  const params = { plugin: 'mail', limit: 10 };
  const requestKey: KeyedRequest = {
    key: 'k',
    route: 'POST /jobs/cancel',
    content: Buffer.from('{}'),
    isSecret: false,
    isDryRun: false,
  };

  /** The directive that another host runs for the same request. */
  async function beginElsewhere(subjectId: string): Promise<DirectiveInsert> {
    const key = callerKey('cli:ann', `request:${subjectId}`);
    const request = pausing(
      { type: 'job.cancel', params: toCanonicalJson(params), sameness: { key } },
      'process',
    );
    await engine.ledger.directives.create(request);
    return request;
  }

  test('is not over while another host does it, and is repeated when that failed', async () => {
    const subjects: string[] = [];
    let started: DirectiveInsert | undefined;
    const request = (): Promise<unknown> => {
      const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'api' } as const;
      return runOnce(context, requestKey, async ({ subjectId = '' }) => {
        subjects.push(subjectId);
        started ??= await beginElsewhere(subjectId);
        return {
          status: 200,
          text: JSON.stringify(await ask('jobs.cancel', params, { subjectId })),
        };
      });
    };
    const busy = { code: 'BUSY', details: { directive_status: 'running' } };
    await expect(request()).rejects.toMatchObject(busy);
    await expect(request()).rejects.toMatchObject(busy);
    const { draft, processId, ends } = started ?? pausing();
    const end = { status: 'failed', code: 'STOPPING', error: 'stopped after 3 jobs' } as const;
    await engine.ledger.directives.close({
      id: draft.id,
      processId,
      end,
      ...ends.failed(end),
    });
    await expect(request()).rejects.toMatchObject({ code: 'STOPPING' });
    expect(await request()).toMatchObject({ status: 200, repeated: false });
    expect(await request()).toMatchObject({ status: 200, repeated: true });
    expect(new Set(subjects.slice(0, 3)).size).toBe(1);
    expect(new Set(subjects).size).toBe(2);
  });
});

test.each([
  ['jobs.cancel', { plugin: 'mail', older_than: '200000d' }],
  ['plugin.run', { plugin: 'mail', dedupe_key: 'k', dedupe_ttl: '200000d' }],
  ['plugin.run', { plugin: 'mail', delay: '200000d' }],
])('%s does not go further from now than a database can count', async (name, input) => {
  await expect(ask(name, input)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});

test('an init is not retried, because only a new one sets the plugin up', async () => {
  const id = makeId();
  const job = { id, plugin: 'mail', command: 'init', payload: '{}', maxAttempts: 1 };
  await engine.ledger.jobs.enqueue({ jobs: [{ ...job, submittedBy: 'cli', actor: 'cli:ann' }] });
  await runOne(engine, { status: 'failed', cause: 'exit', error: 'broken' });
  await expect(ask('job.retry', { id })).rejects.toMatchObject({
    code: 'INPUT_INVALID',
    hint: expect.stringContaining('ductile plugin init mail'),
  });
  expect(await ask('jobs.retry', { plugin: 'mail' })).toMatchObject({
    jobs: 0,
    queued: 0,
    init: 1,
  });
});

describe('directive.request', () => {
  test('requests any directive by its type, with the scope of that type', async () => {
    const request = { type: 'system.pause', idempotency_key: 'k' };
    const principal = makePrincipal('token:ops', ['system:rw']);
    const first = await ask('directive.request', request, { principal });
    expect(first).toMatchObject({ status: 'completed', repeated: false, result: { paused: true } });
    const again = await ask('directive.request', request, { principal });
    expect(again).toEqual({ ...first, repeated: true });
    expect(engine.status().state).toBe('paused');
    expect(await ask('directive.show', { id: first['directive_id'] })).toMatchObject({
      actor: 'token:ops',
      scope: 'system:rw',
      idempotency_key: 'k',
      signals: ['requested', 'started', 'completed'].map((moment) => ({
        type: `directive.${moment}`,
        correlation_id: first['directive_id'],
      })),
    });
    const reader = makePrincipal('token:r', ['directives:rw']);
    const refused = ask('directive.request', { type: 'system.resume' }, { principal: reader });
    await expect(refused).rejects.toMatchObject({ code: 'FORBIDDEN' });
    const other = { ...request, type: 'system.resume' };
    await expect(ask('directive.request', other, { principal })).rejects.toMatchObject({
      code: 'IDEMPOTENCY_MISMATCH',
    });
    // The key `k` of one caller is independent of another's.
    expect(await ask('directive.request', other)).toMatchObject({ repeated: false });
    await expect(ask('directive.show', { id: 'nobody' })).rejects.toMatchObject({
      code: 'DIRECTIVE_NOT_FOUND',
    });
  });

  test('can be a dry run, which leaves nothing', async () => {
    const output = await ask('directive.request', { type: 'system.pause', dry_run: true });
    expect(output).toEqual({ dry_run: true, plan: [expect.any(String)] });
    expect(await ask('directive.list')).toEqual({ directives: [], next_cursor: null });
  });
});

test('plugin.run takes a time or a delay, and not both', async () => {
  const input = { plugin: 'mail', command: 'handle' };
  await ask('plugin.run', { ...input, delay: '5m', dedupe_key: 'k', dedupe_ttl: '1h' });
  await ask('plugin.run', { ...input, run_at: '2026-11-15T23:30:00+01:00' });
  expect(engine.submitted).toMatchObject([
    { due: { inMs: 300_000 }, dedupeKey: 'k', dedupeTtlMs: 3_600_000 },
    { due: { at: '2026-11-15T22:30:00.000Z' } },
  ]);
  const both = { ...input, delay: '5m', run_at: '2026-11-15T23:30:00Z' };
  await expect(ask('plugin.run', both)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  for (const run_at of ['tomorrow', '2026-11-15', '2026-13-01T00:00:00Z', '2026-11-15T23:30:00']) {
    await expect(ask('plugin.run', { ...input, run_at })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: 'run_at',
    });
  }
});
