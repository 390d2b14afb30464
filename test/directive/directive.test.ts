import { makeContext } from '../support/context.ts';
import type { Config } from '../../src/config/config.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { DuctileError } from '../../src/base/errors.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { makeLogger } from '../../src/base/log.ts';
import type { Directives } from '../../src/directive/request.service.ts';
import { makeTokenStore, makePrincipal } from '../../src/access/tokens.service.ts';
import { pausing } from '../support/ledger/drafts.ts';
import { ask, pause, resume } from '../support/direct.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';

const failsOnce = python('ok() if os.path.exists("../../gate-mended") else fail(retry=False)');

function textOf(result: JsonObject | null, name: string): string {
  const value = result?.[name];
  if (typeof value !== 'string') throw new Error(`there is no ${name}`);
  return value;
}

/** A directive that this process executes, held until the test lets it go. */
function registerHeld(directives: Directives): { release: (how?: 'fail') => void; runs: string[] } {
  const runs: string[] = [];
  let release: (how?: 'fail') => void = () => undefined;
  const gate = new Promise<'fail' | undefined>((resolve) => (release = (how) => resolve(how)));
  directives.registerDirective({
    type: 'test.hold',
    summary: 'Wait for the test.',
    scope: 'test:rw',
    params: z.strictObject({ name: z.string() }),
    sameness: () => 'each',
    target: ({ name }: { name: string }) => name,
    plan: (_context, { name }) => [`It would hold ${name}.`],
    async execute(_context, { name }, { directiveId }) {
      runs.push(directiveId);
      if ((await gate) === 'fail') throw new DuctileError('BACKUP_INVALID', 'no room');
      return { held: name };
    },
  });
  return { release: (how) => release(how), runs };
}

describe.each(databases)('directives on %s', (database) => {
  test('leave a trail: the actor, the request, the time, and the outcome', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { engine, ledger, run } = await place.start();
    const [first, again] = [await pause(engine), await pause(engine)];
    expect(first).toMatchObject({ status: 'completed', result: { paused: true }, repeated: false });
    expect(again).toMatchObject({ id: first.id, repeated: true });
    await resume(engine);
    expect((await pause(engine)).repeated).toBe(false);
    expect(engine.status().state).toBe('paused');
    await resume(engine);
    expect((await run('worker')).status).toBe('succeeded');
    const trail = await ledger.directives.list({ limit: 9 });
    expect(trail.map(({ type, actor, status }) => [type, actor, status])).toEqual(
      ['resume', 'pause', 'resume', 'pause'].map((verb) => [
        `system.${verb}`,
        'cli:test',
        'completed',
      ]),
    );
    const emittedSignals = await ledger.signals.list({ type: 'directive.completed', limit: 9 });
    expect(emittedSignals.map(({ correlationId }) => correlationId)).toEqual(
      trail.map(({ id }) => id),
    );
  });

  test('that are only planned write nothing', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { engine, ledger } = await place.start();
    const plan = await ask(engine, 'system.pause', {}, { dryRun: true });
    expect(plan).toMatchObject({ id: null, result: null, plan: [expect.any(String)] });
    expect(await ledger.directives.list({ limit: 9 })).toEqual([]);
    expect(engine.status().state).toBe('running');
  });

  test('with the key of another request are refused, with that of the same are returned', async () => {
    const place = await makePlace({
      database,
      plugins: { one: { program: succeeds }, two: { program: succeeds } },
    });
    const { engine } = await place.start();
    const key = { idempotencyKey: 'mine' };
    const first = await ask(engine, 'plugin.disable', { plugin: 'one' }, key);
    const again = await ask(engine, 'plugin.disable', { plugin: 'one' }, key);
    expect(again).toEqual({ ...first, repeated: true });
    await expect(ask(engine, 'plugin.disable', { plugin: 'two' }, key)).rejects.toMatchObject({
      code: 'IDEMPOTENCY_MISMATCH',
      kind: { status: 422 },
    });
    const taken = ask(engine, 'system.pause', {}, { idempotencyKey: 'auto:x' });
    await expect(taken).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  });

  test.each([
    ['system.stop', {}, 'type'],
    ['system.pause', { when: 'now' }, 'params.when'],
    ['plugin.disable', {}, 'params.plugin'],
    ['job.cancel', {}, 'params'],
    ['job.cancel', { job_id: 'a', plugin: 'b' }, 'params'],
    ['job.retry', { status: ['running'] }, 'params.status[0]'],
  ])('that make no sense are refused with their place: %s %o', async (type, params, placeOf) => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { engine, ledger } = await place.start();
    await expect(ask(engine, type, params)).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: placeOf,
    });
    expect(await ledger.directives.list({ limit: 9 })).toEqual([]);
  });

  test('can be waited for by routes', async () => {
    const place = await makePlace({
      database,
      plugins: { watcher: { program: succeeds } },
      routes: [{ event_type: 'directive.completed', to: 'watcher' }],
    });
    const { engine, ledger, ended } = await place.start();
    const { id } = await ask(engine, 'plugin.enable', { plugin: 'watcher' });
    const job = await eventually(
      'it was routed',
      async () => (await ledger.jobs.list({ limit: 1 }))[0],
    );
    expect(JSON.parse(job.payload)).toMatchObject({
      type: 'directive.completed',
      source: 'ductile',
      payload: { directive_id: id, type: 'plugin.enable', actor: 'cli:ann' },
    });
    expect((await ended(job.id)).status).toBe('succeeded');
  });

  test('in this process are running until they end, and end once for all callers', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { engine, ledger } = await place.start();
    const { release, runs } = registerHeld(engine.directives);
    const key = { idempotencyKey: 'held' };
    const first = ask(engine, 'test.hold', { name: 'a' }, key);
    const [id] = await eventually('it runs', () => runs.length > 0 && runs);
    expect(await ledger.directives.find(id ?? '')).toMatchObject({
      status: 'running',
      processId: engine.processId,
    });
    const second = ask(engine, 'test.hold', { name: 'a' }, key);
    release();
    expect(await first).toMatchObject({ id, status: 'completed', result: { held: 'a' } });
    expect(await second).toMatchObject({ id, status: 'completed', repeated: true });
    expect(runs).toHaveLength(1);
    const emittedSignals = await ledger.signals.list({ limit: 9 });
    expect(emittedSignals.map(({ type }) => type)).toEqual([
      'directive.completed',
      'directive.started',
      'directive.requested',
    ]);
  });

  test('in this process that fail say why', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { engine, ledger } = await place.start();
    const { release } = registerHeld(engine.directives);
    release('fail');
    expect(await ask(engine, 'test.hold', { name: 'a' })).toMatchObject({
      status: 'failed',
      error: 'no room',
      errorCode: 'BACKUP_INVALID',
      result: null,
    });
    expect(await ledger.signals.list({ type: 'directive.failed', limit: 9 })).toHaveLength(1);
  });

  test('in a process that died are failed by the next one', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const before = await place.start();
    const insert = pausing({ sameness: 'each' }, 'process');
    await before.ledger.directives.create({ ...insert, processId: 'dead' });
    await before.close();
    await place.sql(`update directives set started_at = '2000-01-01T00:00:00.000Z'`);
    const { ledger } = await place.start();
    const failed = await eventually('it is failed', async () => {
      const directive = await ledger.directives.find(insert.draft.id);
      return directive?.status === 'failed' && directive;
    });
    expect(failed.error).toBe('the process that executed it died');
    expect(await ledger.signals.list({ type: 'directive.failed', limit: 9 })).toHaveLength(1);
  });
});

describe.each(databases)('a retry on %s', (database) => {
  test('over many jobs skips those of removed plugins, which use no room', async () => {
    const failing = { program: python('fail(retry=False)') };
    const place = await makePlace({ database, plugins: { gone: failing, worker: failing } });
    const before = await place.start();
    for (const plugin of ['gone', 'gone', 'worker', 'worker']) await before.run(plugin);
    await before.close();
    const disabled = { ...failing, settings: { enabled: false } };
    const after = await (
      await place.vary({ plugins: { gone: disabled, worker: failing } })
    ).start();
    const choice = { status: ['dead', 'failed'], limit: 1 };
    const { result } = await ask(after.engine, 'job.retry', choice);
    expect(result).toEqual({ jobs: 1, queued: 1, unknown_plugin: 2 });
  });

  test('does the work again under the same key, and leaves the old job as it is', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: failsOnce } } });
    const { engine, run, ended, ledger } = await place.start();
    const old = await run('worker', { n: 1 });
    expect(old.status).toBe('failed');
    await place.openGate('mended');
    const { result } = await ask(engine, 'job.retry', { job_id: old.id });
    const next = await ended(textOf(result, 'job_id'));
    expect(next).toMatchObject({
      status: 'succeeded',
      retryOf: old.id,
      payload: '{"n":1}',
      idempotencyKey: old.idempotencyKey,
      submittedBy: 'directive',
      actor: 'cli:ann',
    });
    expect(await ledger.jobs.find(old.id)).toEqual(old);
  });

  test('for a job that has not ended is refused', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { engine, submit } = await place.start();
    await pause(engine);
    const id = await submit('worker');
    await expect(ask(engine, 'job.retry', { job_id: id })).rejects.toMatchObject({
      code: 'JOB_OPEN',
    });
  });
});

describe.each(databases)('many jobs at once on %s', (database) => {
  test('are counted first and then cancelled, no more than the limit', async () => {
    const place = await makePlace({
      database,
      plugins: { one: { program: succeeds }, two: { program: succeeds } },
    });
    const { engine, submit, ledger } = await place.start();
    await pause(engine);
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) ids.push(await submit('one'));
    const jobId = await submit('two');
    const filter = { plugin: 'one', status: ['queued'] };
    const { plan } = await ask(engine, 'job.cancel', filter, { dryRun: true });
    expect(plan).toEqual(['5 jobs will be cancelled.', expect.stringContaining('stays cancelled')]);
    const limited = await ask(engine, 'job.cancel', { ...filter, limit: 2 });
    expect(limited.result).toEqual({ jobs: 2, cancelled: 2 });
    expect((await ledger.jobs.find(ids[0] ?? ''))?.status).toBe('cancelled');
    const rest = await ask(engine, 'job.cancel', filter);
    expect(rest.result).toEqual({ jobs: 3, cancelled: 3 });
    expect((await ledger.jobs.find(jobId))?.status).toBe('queued');
  });

  test('are retried once, and not those that failed because of it', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: failsOnce } } });
    const { engine, run, ledger } = await place.start();
    for (let n = 0; n < 3; n += 1) expect((await run('worker')).status).toBe('failed');
    const first = await ask(engine, 'job.retry', { plugin: 'worker' });
    expect(first.result).toEqual({ jobs: 3, queued: 3 });
    await eventually('they failed again', async () => {
      const failed = await ledger.jobs.count({ status: ['failed'], limit: 99 });
      return failed === 6;
    });
    await place.openGate('mended');
    expect((await ask(engine, 'job.retry', { plugin: 'worker' })).result).toEqual({
      jobs: 3,
      queued: 3,
    });
    await eventually('they succeeded', async () => {
      const done = await ledger.jobs.count({ status: ['succeeded'], limit: 99 });
      return done === 3;
    });
    expect((await ask(engine, 'job.retry', { plugin: 'worker' })).result).toEqual({ jobs: 0 });
  });
});

describe.each(databases)('a token on %s', (database) => {
  test('opens the door from its making to its end, and its text is kept nowhere', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { engine, ledger, records, close } = await place.start();
    const params = { name: 'deploy', scopes: ['jobs:ro'] };
    const { result } = await ask(engine, 'token.create', params);
    const text = textOf(result, 'token');
    const principal = makePrincipal('token:deploy', ['jobs:ro']);
    expect(await engine.tokens.find(text)).toEqual(principal);
    expect(await engine.tokens.find(`${text}x`)).toBeUndefined();
    const rotated = await ask(engine, 'token.rotate', { token: 'deploy' });
    expect(await engine.tokens.find(text)).toBeUndefined();
    const next = textOf(rotated.result, 'token');
    expect(await engine.tokens.find(next)).toEqual(principal);
    await ask(engine, 'token.revoke', { token: 'deploy' });
    expect(await engine.tokens.find(next)).toBeUndefined();
    const stored = JSON.stringify([
      await ledger.directives.list({ limit: 9 }),
      await ledger.signals.list({ limit: 9 }),
      await ledger.tokens.list(),
      records,
    ]);
    for (const secret of [text, next]) expect(stored).not.toContain(secret);
    await close();
  });

  test('is refused when its time is over, and its use is written down at the latest at the end', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { engine, close } = await place.start();
    const made = await ask(engine, 'token.create', { name: 'a', scopes: ['*'] });
    await engine.tokens.find(textOf(made.result, 'token'));
    await close();
    const { ledger, engine: next } = await place.start();
    expect((await ledger.tokens.list())[0]?.lastUsedAt).not.toBeNull();
    await place.sql(`update api_tokens set expires_at = '2000-01-01T00:00:00.000Z'`);
    await next.tokens.refresh();
    expect(await next.tokens.find(textOf(made.result, 'token'))).toBeUndefined();
  });
});

test('a token that was revoked on another host is refused when what is known is too old', async () => {
  const place = await makePlace({ plugins: { worker: { program: succeeds } } });
  const { engine, ledger } = await place.start();
  const log = makeLogger({ level: 'error', format: 'json', destination: { write: () => true } });
  const generation = { config: { api: { auth: { tokens: [] } } } as unknown as Config };
  const other = makeTokenStore(makeContext({ ledger, generation, log }));
  const made = await ask(engine, 'token.create', { name: 'a', scopes: ['*'] });
  const text = textOf(made.result, 'token');
  expect(await other.find(text)).toBeDefined();
  await ask(engine, 'token.revoke', { token: 'a' });
  expect(await engine.tokens.find(text)).toBeUndefined();
  await sleep(limits.tokenCacheMs);
  expect(await other.find(text)).toBeUndefined();
});

describe.each(databases)('a job for later on %s', (database) => {
  test('starts when it is due, not before', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { submit, ended, ledger } = await place.start();
    const later = await submit('worker', {}, { due: { at: '2999-01-01T00:00:00.000Z' } });
    const soon = await submit('worker', {}, { due: { inMs: 60 } });
    const { startedAt, createdAt, status } = await ended(soon);
    expect(status).toBe('succeeded');
    expect(Date.parse(startedAt ?? '') - Date.parse(createdAt)).toBeGreaterThanOrEqual(60);
    expect(await ledger.jobs.find(later)).toMatchObject({ status: 'queued', attempt: 1 });
  });
});
