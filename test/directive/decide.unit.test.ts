/** Permissions to approve and to cancel a directive. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { makePrincipal, type Principal } from '../../src/access/tokens.service.ts';
import { ownerOf } from '../../src/operation/context.ts';
import type { JsonOutput } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { runOnce } from '../../src/operation/idempotency.ts';
import { makeStubEngine, type StubEngine } from '../support/stub-engine.ts';

let engine: StubEngine;

beforeEach(async () => {
  engine = await makeStubEngine();
  engine.approvals = { 'system.pause': [], 'plugin.disable': ['token:boss'] };
});

afterEach(async () => {
  await engine.ledger.close();
});

const ann = ownerOf('cli:ann');

function token(name: string, ...scopes: string[]): Principal {
  return makePrincipal(`token:${name}`, scopes);
}

async function ask(name: string, input: unknown, principal: Principal = ann): Promise<JsonOutput> {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(name);
  return await invoke(operation, { engine, principal, submittedBy: 'api' }, input);
}

async function request(principal: Principal, type = 'system.pause', params = {}): Promise<string> {
  const response = await ask('directive.request', { type, params }, principal);
  expect(response).toMatchObject({ status: 'requested', awaiting_approval: true });
  return String(response['directive_id']);
}

describe('directive.approve', () => {
  const ops = token('ops', 'system:rw', 'plugin:rw', 'directives:rw');

  test('needs another caller than the requester, with the scope of the action', async () => {
    const id = await request(ops);
    const refused = [ops, token('a', 'directives:rw'), token('b', 'system:rw')];
    for (const principal of refused) {
      for (const input of [{ id }, { id, dry_run: true }]) {
        await expect(ask('directive.approve', input, principal)).rejects.toMatchObject({
          code: 'FORBIDDEN',
        });
      }
    }
    expect(engine.status().state).toBe('running');
    const other = token('other', 'system:rw', 'directives:rw');
    const dry = await ask('directive.approve', { id, dry_run: true }, other);
    expect(dry).toMatchObject({ dry_run: true, plan: [expect.any(String)] });
    const done = await ask('directive.approve', { id }, other);
    expect(done).toMatchObject({ status: 'completed', awaiting_approval: false });
    expect(engine.status().state).toBe('paused');
    expect(await ask('directive.show', { id })).toMatchObject({
      actor: 'token:ops',
      actor_role: 'service',
      approved_by: 'token:other',
      awaiting_approval: false,
    });
  });

  test('is for those whom the configuration names, and for owners', async () => {
    const admin = { ...ops, role: 'admin' } as const;
    const first = await request(admin, 'plugin.disable', { plugin: 'mail' });
    const other = token('other', 'plugin:rw', 'directives:rw');
    await expect(ask('directive.approve', { id: first }, other)).rejects.toMatchObject({
      code: 'FORBIDDEN',
      message: expect.stringContaining('token:boss'),
    });
    const boss = token('boss', 'plugin:rw', 'directives:rw');
    expect(await ask('directive.approve', { id: first }, boss)).toMatchObject({
      status: 'completed',
    });
    const own = await request(ann, 'plugin.disable', { plugin: 'echo' });
    expect(await ask('directive.approve', { id: own })).toMatchObject({ status: 'completed' });
  });

  test("reports the state of a directive that doesn't wait", async () => {
    const { directive_id: id } = await ask('directive.request', { type: 'system.resume' });
    await expect(ask('directive.approve', { id })).rejects.toMatchObject({
      code: 'DIRECTIVE_NOT_WAITING',
      kind: { status: 409 },
    });
    await expect(ask('directive.approve', { id: 'x' })).rejects.toMatchObject({
      code: 'DIRECTIVE_NOT_FOUND',
    });
  });
});

describe('directive.cancel', () => {
  test('is for the requester and for callers that may do the same', async () => {
    const mine = token('mine', 'system:rw', 'directives:rw');
    const id = await request(mine);
    const stranger = token('stranger', 'jobs:rw', 'directives:rw');
    await expect(ask('directive.cancel', { id }, stranger)).rejects.toMatchObject({
      code: 'FORBIDDEN',
    });
    const poorer = token('mine', 'directives:rw');
    const dry = await ask('directive.cancel', { id, dry_run: true }, poorer);
    expect(dry['plan']).toEqual(['The system.pause that token:mine requested will be cancelled.']);
    expect(await ask('directive.cancel', { id }, poorer)).toMatchObject({ status: 'cancelled' });
    expect(await ask('directive.cancel', { id })).toMatchObject({ repeated: true });
    expect(await ask('directive.list', { status: ['cancelled'] })).toMatchObject({
      directives: [{ directive_id: id, cancelled_by: 'token:mine' }],
    });
  });
});

test('a command of its own says that its directive waits, and its key stays', async () => {
  const keyed = {
    key: 'k',
    route: 'POST /system/pause',
    content: Buffer.from('{}'),
    isSecret: false,
    isDryRun: false,
  };
  const once = () =>
    runOnce({ engine, principal: ann, submittedBy: 'api' }, keyed, async (context) => {
      const operation = operations.find(({ name }) => name === 'system.pause');
      if (operation === undefined) throw new Error('there is no system.pause');
      return { status: 200, text: JSON.stringify(await invoke(operation, context, {})) };
    });
  const needed = { code: 'APPROVAL_NEEDED', kind: { status: 409 } };
  await expect(once()).rejects.toMatchObject(needed);
  await expect(once()).rejects.toMatchObject(needed);
  const { directives } = await ask('directive.list', {});
  expect(directives).toMatchObject([{ status: 'requested', actor_role: 'owner' }]);
  const [{ directive_id: id } = { directive_id: '' }] = directives as { directive_id: string }[];
  await ask('directive.approve', { id });
  expect(await once()).toMatchObject({ status: 200 });
});

test('a request for later is distinguished from what was done', async () => {
  const later = { type: 'plugin.enable', params: { plugin: 'mail' }, delay: '1h' };
  expect(await ask('directive.request', { ...later, dry_run: true })).toMatchObject({
    plan: [expect.any(String), 'It will start in 1h at the earliest.'],
  });
  const response = await ask('directive.request', { ...later, correlation_id: 'c' });
  expect(response).toMatchObject({ status: 'requested', awaiting_approval: false });
  expect(response['run_at']).toEqual(expect.any(String));
  const both = { ...later, run_at: '2999-01-01T00:00:00Z' };
  await expect(ask('directive.request', both)).rejects.toMatchObject({ place: 'delay' });
  expect(await ask('analytics.summary', {})).toMatchObject({
    directives: { requested: 1, completed: 0, failed: 0, cancelled: 0 },
    signals_emitted: 1,
  });
});
