/** The cases of directives by their numbers, as far as no other test is about the very same. */
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { DuctileError } from '../../src/base/errors.ts';
import type { Directives } from '../../src/directive/request.service.ts';
import { ask, pause, resume } from '../support/direct.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

const plugins = { worker: { program: succeeds } };
const later = { at: '2999-01-01T00:00:00.000Z' };
const past = '2000-01-01T00:00:00.000Z';

async function open(database: Database, directives: object = {}) {
  const place = await makePlace({ database, plugins, directives: { ...directives } });
  return { place, ...(await place.start()) };
}

/** The directive that this process executes; the test decides how it ends. */
function register(directives: Directives, execute: () => Promise<object>): void {
  directives.registerDirective({
    type: 'test.work',
    summary: 'Do what the test says.',
    scope: 'test:rw',
    params: z.strictObject({}),
    sameness: () => 'each',
    target: () => '',
    plan: () => ['It would be done.'],
    execute: async () => (await execute()) as Record<string, never>,
  });
}

describe.each(databases)('directives on %s', (database) => {
  test('D-01 one for later is requested, and nothing is done', async () => {
    const { engine, ledger } = await open(database);
    const { id } = await ask(engine, 'plugin.disable', { plugin: 'worker' }, { due: later });
    const row = await ledger.directives.find(id ?? '');
    expect(row).toMatchObject({ status: 'requested', startedAt: null, attempt: 0, result: null });
    expect(await ledger.plugins.listDisabled()).toEqual([]);
  });

  test('D-02 an unknown type and params that do not fit are refused, and leave nothing', async () => {
    const { engine, ledger } = await open(database);
    for (const [type, params, place] of [
      ['plugin.explode', {}, 'type'],
      ['Plugin Disable', {}, 'type'],
      ['plugin.disable', {}, 'params.plugin'],
      ['plugin.disable', { plugin: 7 }, 'params.plugin'],
      ['plugin.disable', { plugin: 'worker', more: 1 }, 'params.more'],
    ] as const) {
      const refusal = expect(ask(engine, type, params)).rejects;
      await refusal.toMatchObject({ code: 'INPUT_INVALID', place });
    }
    expect(await ledger.directives.list({ limit: 9 })).toEqual([]);
    expect(await ledger.signals.list({ limit: 9 })).toEqual([]);
  });

  test('D-05 D-12 one that is pure SQL emits its whole history in order, in its commit', async () => {
    const { engine, ledger } = await open(database);
    const chain = { correlationId: 'c1', causationId: 's1' };
    const { id } = await ask(engine, 'plugin.disable', { plugin: 'worker' }, chain);
    const row = await ledger.directives.find(id ?? '');
    expect(row).toMatchObject({ status: 'completed', attempt: 1, result: expect.any(String) });
    expect(row?.startedAt).not.toBeNull();
    expect(row?.completedAt).not.toBeNull();
    const emittedSignals = await ledger.signals.list({
      subjectId: id ?? '',
      order: 'oldest',
      limit: 9,
    });
    expect(emittedSignals.map(({ type }) => type)).toEqual([
      'directive.requested',
      'directive.started',
      'directive.completed',
    ]);
    for (const one of emittedSignals) {
      expect(one).toMatchObject({ correlationId: 'c1', causationId: id });
      expect(JSON.parse(one.metadata)).toEqual({ schema_version: 1, actor: 'cli:ann' });
    }
    expect(emittedSignals.at(-1)?.id).toBe(row?.signalId);
  });

  test('D-06 one that fails keeps kind, message and details, and reports them', async () => {
    const { engine, ledger } = await open(database);
    register(engine.directives, () =>
      Promise.reject(new DuctileError('BACKUP_INVALID', 'no room', { details: { left: 3 } })),
    );
    const { id, status } = await ask(engine, 'test.work', {});
    expect(status).toBe('failed');
    expect(await ledger.directives.find(id ?? '')).toMatchObject({
      errorCode: 'BACKUP_INVALID',
      error: 'no room',
      errorDetails: '{"left":3}',
    });
    const emittedSignals = await ledger.signals.list({
      subjectId: id ?? '',
      order: 'oldest',
      limit: 9,
    });
    expect(emittedSignals.at(-1)?.type).toBe('directive.failed');
    const why = { error_kind: 'BACKUP_INVALID', error_message: 'no room' };
    expect(JSON.parse(emittedSignals.at(-1)?.data ?? '')).toMatchObject({
      status: 'failed',
      ...why,
    });
  });

  test('D-03 D-07 the same key is the same directive, however it ended, and nothing is redone', async () => {
    const { engine, ledger } = await open(database);
    let runs = 0;
    register(engine.directives, () => {
      runs += 1;
      return runs === 1 ? Promise.reject(new Error('once')) : Promise.resolve({});
    });
    const keyed = { idempotencyKey: 'k' };
    const first = await ask(engine, 'test.work', {}, keyed);
    const again = await ask(engine, 'test.work', {}, keyed);
    expect([again.id, again.status, again.repeated]).toEqual([first.id, 'failed', true]);
    expect(runs).toBe(1);
    const other = ask(engine, 'plugin.disable', { plugin: 'worker' }, keyed);
    await expect(other).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
    expect(await ledger.directives.list({ limit: 9 })).toHaveLength(1);
    expect((await ask(engine, 'test.work', {}, { idempotencyKey: 'l' })).status).toBe('completed');
  });

  test('D-08 one that is begun by two at once is begun by one', async () => {
    const { place, engine, ledger } = await open(database);
    const { id } = await ask(engine, 'plugin.disable', { plugin: 'worker' }, { due: later });
    await place.sql('update directives set run_at = ? where id = ?', past, id);
    await Promise.all([engine.directives.waiting.startDue(), engine.directives.waiting.startDue()]);
    await eventually('it is done', async () => {
      return (await ledger.directives.find(id ?? ''))?.status === 'completed';
    });
    expect(await ledger.directives.find(id ?? '')).toMatchObject({ attempt: 1 });
    const emittedSignals = await ledger.signals.list({
      subjectId: id ?? '',
      type: 'directive.completed',
      limit: 9,
    });
    expect(emittedSignals).toHaveLength(1);
  });

  test('D-09 D-10 one for later is not begun before, and cancelled it never is', async () => {
    const { place, engine, ledger } = await open(database);
    const { id } = await ask(engine, 'plugin.disable', { plugin: 'worker' }, { due: later });
    await engine.directives.waiting.startDue();
    expect(await ledger.directives.find(id ?? '')).toMatchObject({ status: 'requested' });
    await engine.directives.waiting.cancel(id ?? '', { actor: 'cli:ann' });
    await place.sql('update directives set run_at = ? where id = ?', past, id);
    await engine.directives.waiting.startDue();
    await engine.directives.waiting.settled();
    expect(await ledger.plugins.listDisabled()).toEqual([]);
    const done = await ask(engine, 'plugin.disable', { plugin: 'worker' });
    const late = engine.directives.waiting.cancel(done.id ?? '', { actor: 'cli:ann' });
    await expect(late).rejects.toMatchObject({ code: 'DIRECTIVE_NOT_WAITING' });
  });

  test('D-13 off, on and off again are three', async () => {
    const { engine, ledger } = await open(database);
    for (const type of ['plugin.disable', 'plugin.enable', 'plugin.disable'] as const) {
      expect((await ask(engine, type, { plugin: 'worker' })).repeated).toBe(false);
    }
    expect(await ledger.directives.list({ limit: 9 })).toHaveLength(3);
    expect(await ledger.plugins.listDisabled()).toHaveLength(1);
  });

  test('D-14 of one that is not there nothing is begun', async () => {
    const { engine } = await open(database);
    const approved = engine.directives.waiting.approve('nobody', { actor: 'x', isOwner: true });
    await expect(approved).rejects.toMatchObject({ code: 'DIRECTIVE_NOT_FOUND' });
  });

  test('are counted as they are reported', async () => {
    const { engine } = await open(database);
    register(engine.directives, () => Promise.reject(new Error('no')));
    await pause(engine);
    await pause(engine);
    await resume(engine);
    await ask(engine, 'test.work', {});
    expect(engine.status().counts).toMatchObject({
      signalsEmitted: 9,
      directivesRequested: 3,
      directivesCompleted: 2,
      directivesFailed: 1,
      directivesCancelled: 0,
    });
  });
});

describe.each(databases)('a directive that waited, on %s', (database) => {
  const disable = { type: 'plugin.disable', params: { plugin: 'worker' } };

  async function waiting(database_: Database) {
    const opened = await open(database_, { approval: ['plugin.disable'] });
    const made = await ask(opened.engine, 'token.create', { name: 'ops', role: 'admin' });
    const directiveResult = await opened.engine.direct({ ...disable, actor: 'token:ops' });
    expect([made.status, directiveResult.awaitingApproval]).toEqual(['completed', true]);
    return { ...opened, id: directiveResult.id ?? '' };
  }

  const boss = { actor: 'cli:boss', isOwner: true };

  test('D-04 is done for a token that may still do it', async () => {
    const { engine, ledger, id } = await waiting(database);
    expect((await engine.directives.waiting.approve(id, boss)).status).toBe('completed');
    expect(await ledger.plugins.listDisabled()).toHaveLength(1);
  });

  test('D-04 fails when its token is gone by then', async () => {
    const { engine, ledger, id } = await waiting(database);
    await ask(engine, 'token.revoke', { token: 'ops' });
    const late = await engine.directives.waiting.approve(id, boss);
    expect(late).toMatchObject({ status: 'failed', errorCode: 'FORBIDDEN' });
    expect(await ledger.plugins.listDisabled()).toEqual([]);
  });

  test('D-04 fails when its token may do less by then', async () => {
    const { engine, ledger, id, place } = await waiting(database);
    await place.sql(`update api_tokens set role = 'service', scopes = '["jobs:rw"]'`);
    const late = await engine.directives.waiting.approve(id, boss);
    expect(late).toMatchObject({ status: 'failed', errorCode: 'FORBIDDEN' });
    expect(late.error).toContain('may no longer request plugin.disable');
    expect(await ledger.plugins.listDisabled()).toEqual([]);
  });
});
