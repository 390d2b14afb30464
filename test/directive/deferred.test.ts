/** Directives that wait for an approval or for their time. */
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { approvable } from '../../src/directive/approval.ts';
import { pausing, waiting } from '../support/ledger/drafts.ts';
import { ask } from '../support/direct.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

const plugins = { worker: { program: succeeds } };
const bob = { actor: 'token:bob', isOwner: false };

function guarded(database: Database) {
  return makePlace({
    database,
    plugins,
    directives: { approval: ['plugin.disable', 'job.retry'] },
  });
}

test('every type can wait for approval that need not be done where it is asked for', async () => {
  const { engine } = await (await makePlace({ plugins })).start();
  const types = engine.directives.types.filter(({ isImmediate }) => isImmediate !== true);
  expect(types.map(({ type }) => type).toSorted()).toEqual([...approvable]);
});

describe.each(databases)('a directive on %s', (database) => {
  test('that needs approval is done when another caller has given it', async () => {
    const { engine, ledger, records } = await (await guarded(database)).start();
    const params = { plugin: 'worker' };
    const dry = await ask(engine, 'plugin.disable', params, { dryRun: true });
    expect(dry.plan.at(-1)).toBe('It will wait for approval.');
    const response = await ask(engine, 'plugin.disable', params, {
      correlationId: 'c1',
      causationId: 's1',
      actorRole: 'member',
    });
    expect(response).toMatchObject({ status: 'requested', awaitingApproval: true, result: null });
    expect(await ledger.plugins.listDisabled()).toEqual([]);
    const id = response.id ?? '';
    const self = engine.directives.waiting.approve(id, { actor: 'cli:ann', isOwner: false });
    await expect(self).rejects.toMatchObject({ code: 'FORBIDDEN' });
    const done = await engine.directives.waiting.approve(id, bob);
    expect(done).toMatchObject({ id, status: 'completed', result: { enabled: false } });
    expect(await ledger.plugins.listDisabled()).toMatchObject([
      { plugin: 'worker', changedBy: 'cli:ann' },
    ]);
    expect(await ledger.directives.find(id)).toMatchObject({
      actorRole: 'member',
      approvedBy: 'token:bob',
      correlationId: 'c1',
      causationId: 's1',
    });
    const emittedSignals = await ledger.signals.list({ limit: 9 });
    expect(emittedSignals.map(({ type }) => type)).toEqual(
      ['completed', 'started', 'approved', 'requested'].map((moment) => `directive.${moment}`),
    );
    for (const signal of emittedSignals) {
      expect(signal).toMatchObject({ correlationId: 'c1', causationId: id, subjectId: id });
    }
    const lines = records.filter(({ message }) => message === 'directive');
    const common = { directive_id: id, type: 'plugin.disable', actor: 'cli:ann' };
    const chain = { correlation_id: 'c1', causation_id: 's1' };
    expect(lines).toMatchObject(
      ['requested', 'requested', 'completed'].map((status) => ({ ...common, ...chain, status })),
    );
    const again = await engine.directives.waiting.approve(id, bob);
    expect(again).toMatchObject({ status: 'completed', repeated: true });
    const late = engine.directives.waiting.approve(id, { actor: 'cli:eve', isOwner: true });
    await expect(late).rejects.toMatchObject({ code: 'DIRECTIVE_NOT_WAITING' });
  });

  test("that was cancelled is never done, and doesn't count for later requests", async () => {
    const { engine, ledger } = await (await guarded(database)).start();
    const params = { plugin: 'worker' };
    const first = await ask(engine, 'plugin.disable', params);
    expect(await ask(engine, 'plugin.disable', params)).toEqual({ ...first, repeated: true });
    const id = first.id ?? '';
    expect(await engine.directives.waiting.cancel(id, bob)).toMatchObject({ status: 'cancelled' });
    await expect(engine.directives.waiting.approve(id, bob)).rejects.toMatchObject({
      code: 'DIRECTIVE_NOT_WAITING',
    });
    expect(await ledger.signals.list({ limit: 1 })).toMatchObject([
      { type: 'directive.cancelled' },
    ]);
    const next = await ask(engine, 'plugin.disable', params);
    expect(next).toMatchObject({ status: 'requested', repeated: false });
    expect(next.id).not.toBe(id);
    expect(await ledger.plugins.listDisabled()).toEqual([]);
  });

  test('for later is done when its time has come, by whichever process runs then', async () => {
    const place = await makePlace({ database, plugins });
    const before = await place.start();
    const params = { plugin: 'worker' };
    const due = { at: '2999-01-01T00:00:00.000Z' };
    const { id, status, runAt } = await ask(before.engine, 'plugin.disable', params, { due });
    expect([status, runAt]).toEqual(['requested', due.at]);
    await before.close();
    await place.sql(`update directives set run_at = '2000-01-01T00:00:00.000Z'`);
    const { engine, ledger } = await place.start();
    const done = await eventually('it is done', async () => {
      const directive = await ledger.directives.find(id ?? '');
      return directive?.status === 'completed' && directive;
    });
    expect(done).toMatchObject({ processId: engine.processId, attempt: 1 });
    await eventually(
      'it is noticed',
      async () => (await ledger.plugins.listDisabled()).length === 1,
    );
  });

  test('for later that is obsolete fails with its reason', async () => {
    const { ledger } = await (await makePlace({ database, plugins })).start();
    const params = '{"job_id":"nobody","limit":1}';
    const request = waiting({}, { type: 'job.retry', target: 'job:nobody', params });
    await ledger.directives.create(request);
    const failed = await eventually('it has failed', async () => {
      const directive = await ledger.directives.find(request.draft.id);
      return directive?.status === 'failed' && directive;
    });
    expect(failed).toMatchObject({ errorCode: 'JOB_NOT_FOUND', attempt: 1 });
    const [told] = await ledger.signals.list({ type: 'directive.failed', limit: 1 });
    expect(JSON.parse(told?.data ?? '')).toMatchObject({
      error_kind: 'JOB_NOT_FOUND',
      error_message: failed.error,
    });
  });

  test('that shows a secret, or is about this process, cannot wait', async () => {
    const { engine, ledger } = await (await makePlace({ database, plugins })).start();
    const due = { inMs: 1000 };
    const key = ask(engine, 'token.rotate', { token: 'a' }, { due });
    await expect(key).rejects.toMatchObject({ code: 'INPUT_INVALID', place: 'run_at' });
    await expect(ask(engine, 'config.reload', {}, { due })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    });
    expect(await ledger.directives.list({ limit: 9 })).toEqual([]);
  });

  test('that is safe to repeat is restarted when its process died, but not for ever', async () => {
    const place = await makePlace({ database, plugins });
    const before = await place.start();
    const params = '{"limit":10,"plugin":"worker"}';
    const draft = { type: 'job.cancel', target: 'job:*', params, sameness: 'each' } as const;
    const twice = pausing({ ...draft, maxAttempts: 3 }, 'process');
    const spent = pausing({ ...draft, maxAttempts: 3 }, 'process');
    for (const asked of [twice, spent])
      await before.ledger.directives.create({ ...asked, processId: 'dead' });
    await before.close();
    await place.sql(`update directives set started_at = '2000-01-01T00:00:00.000Z'`);
    await place.sql(`update directives set attempt = 3 where id = ?`, spent.draft.id);
    const { ledger, engine } = await place.start();
    const ends = await eventually('both have ended', async () => {
      const found = await Promise.all(
        [twice, spent].map(({ draft: { id } }) => ledger.directives.find(id)),
      );
      return found.every((one) => one !== undefined && one.completedAt !== null) && found;
    });
    expect(ends).toMatchObject([
      { status: 'completed', attempt: 2, processId: engine.processId, result: '{"jobs":0}' },
      { status: 'failed', attempt: 3, error: 'the process that executed it died' },
    ]);
  });

  test('that failed keeps the place and the details of its error', async () => {
    const { engine, ledger } = await (await makePlace({ database, plugins })).start();
    engine.directives.registerDirective({
      type: 'test.fail',
      summary: 'Fail.',
      scope: 'test:rw',
      params: z.strictObject({}),
      sameness: () => 'each',
      target: () => '',
      plan: () => [],
      execute: () => ask(engine, 'job.cancel', {}).then(() => ({})),
    });
    const { id } = await ask(engine, 'test.fail', {});
    expect(await ledger.directives.find(id ?? '')).toMatchObject({
      errorCode: 'INPUT_INVALID',
      errorDetails: '{"place":"params"}',
    });
  });
});
