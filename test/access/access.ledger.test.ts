/** Tokens, switches, and the keys under which callers ask. */
import { switchPlugin } from '../../src/job/plugin-state.sql.ts';
import { createToken, revokeToken, rotateToken } from '../../src/access/token.sql.ts';
import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { join } from 'node:path';
import { openLedger } from '../../src/ledger/open.ts';
import { restoreLedger } from '../../src/ledger/restore.ts';
import { makeDirectory } from '../support/directory.ts';
import { databases, makePlace, openBench } from '../support/ledger/bench.ts';
import { keyed, pausing } from '../support/ledger/drafts.ts';

function creating(name: string, expiresInMs?: number, digest = `digest of ${name}`) {
  const token = {
    id: makeId(),
    name,
    digest,
    role: 'service' as const,
    scopes: ['jobs:ro'],
    expiresInMs,
  };
  return pausing({ type: 'token.create', target: `token:${name}`, sameness: 'each' }, (tx, actor) =>
    createToken(tx, token, actor),
  );
}

describe.each(databases)('a token on %s', (kind) => {
  test('is there with its scopes until it is revoked, and its name is never free again', async () => {
    const { ledger, sql } = await openBench(kind);
    const { directive } = await ledger.directives.create(creating('deploy'));
    expect(directive.status).toBe('completed');
    const [token] = await ledger.tokens.list();
    expect(token).toMatchObject({
      name: 'deploy',
      digest: 'digest of deploy',
      scopes: ['jobs:ro'],
      createdBy: 'api:test',
      expiresAt: null,
      expired: false,
      lastUsedAt: null,
    });
    expect((await ledger.directives.create(creating('deploy'))).directive.errorCode).toBe(
      'TOKEN_EXISTS',
    );
    const revoke = () =>
      ledger.directives.create(
        pausing({ type: 'token.revoke', target: 'token:deploy', sameness: 'each' }, (tx) =>
          revokeToken(tx, token?.id ?? ''),
        ),
      );
    expect((await revoke()).directive.status).toBe('completed');
    expect(await ledger.tokens.list()).toEqual([]);
    expect((await revoke()).directive.errorCode).toBe('TOKEN_NOT_FOUND');
    const again = creating('deploy', undefined, 'another');
    expect((await ledger.directives.create(again)).directive).toMatchObject({
      errorCode: 'TOKEN_EXISTS',
      error: expect.stringContaining('never reused'),
    });
    // The name outlives the row.
    await sql(`update api_tokens set revoked_at = '2000-01-01T00:00:00.000Z'`);
    expect(await ledger.history.prune({ what: 'tokens', olderThanMs: 60_000, limit: 9 })).toBe(1);
    expect(await ledger.tokens.describeTakenName('deploy')).toContain('never reused');
    expect(await ledger.tokens.describeTakenName('other')).toBeUndefined();
  });

  test('that created others is kept for their lineage, however old it is', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.directives.create(creating('ann'));
    await ledger.directives.create(creating('ann-2'));
    await sql(`update api_tokens set created_by = 'token:ann' where name = 'ann-2'`);
    await sql(`update api_tokens set revoked_at = '2000-01-01T00:00:00.000Z' where name = 'ann'`);
    const prune = () => ledger.history.prune({ what: 'tokens', olderThanMs: 60_000, limit: 9 });
    expect(await prune()).toBe(0);
    expect(await ledger.tokens.listOrigins()).toMatchObject([
      { name: 'ann' },
      { name: 'ann-2', createdBy: 'token:ann' },
    ]);
    await sql(`update api_tokens set revoked_at = '2000-01-01T00:00:00.000Z'`);
    expect(await prune()).toBe(1);
    expect(await prune()).toBe(1);
  });

  test('never gets a name of the configuration files', async () => {
    const { ledger } = await openBench(kind);
    await ledger.directives.create(creating('mine'));
    expect(await ledger.tokens.claimNames(['ops', 'mine'])).toEqual(['mine']);
    expect(await ledger.tokens.claimNames(['ops'])).toEqual([]);
    expect((await ledger.directives.create(creating('ops'))).directive.errorCode).toBe(
      'TOKEN_EXISTS',
    );
  });

  test('expires by the clock of the database', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.directives.create(creating('short', 60_000));
    expect(await ledger.tokens.list()).toMatchObject([{ expired: false }]);
    await sql(`update api_tokens set expires_at = '2000-01-01T00:00:00.000Z'`);
    expect(await ledger.tokens.list()).toMatchObject([{ expired: true }]);
    expect(await ledger.history.prune({ what: 'tokens', olderThanMs: 60_000, limit: 9 })).toBe(1);
  });

  test('gets a new text when it is rotated, and keeps everything else', async () => {
    const { ledger } = await openBench(kind);
    await ledger.directives.create(creating('deploy'));
    const [before] = await ledger.tokens.list();
    await ledger.directives.create(
      pausing({ type: 'token.rotate', target: 'token:deploy', sameness: 'each' }, (tx) =>
        rotateToken(tx, before?.id ?? '', 'new'),
      ),
    );
    const [after] = await ledger.tokens.list();
    expect(after).toEqual({ ...before, digest: 'new', rotatedAt: after?.rotatedAt });
    expect(after?.rotatedAt).not.toBeNull();
  });

  test('is known to have been used', async () => {
    const { ledger } = await openBench(kind);
    await ledger.directives.create(creating('a'));
    await ledger.directives.create(creating('b'));
    const [a] = await ledger.tokens.list();
    await ledger.tokens.recordUse([a?.id ?? '', 'nobody']);
    expect((await ledger.tokens.list()).map(({ lastUsedAt }) => lastUsedAt !== null)).toEqual([
      true,
      false,
    ]);
  });
});

describe.each(databases)('a switch on %s', (kind) => {
  test('is off until it is on again', async () => {
    const { ledger } = await openBench(kind);
    const turn = (enabled: boolean) =>
      ledger.directives.create(
        pausing(
          { type: enabled ? 'plugin.enable' : 'plugin.disable', target: 'plugin:mail' },
          (tx, actor) => switchPlugin(tx, { plugin: 'mail', enabled }, actor),
        ),
      );
    expect(await ledger.plugins.listDisabled()).toEqual([]);
    await turn(false);
    expect(await ledger.plugins.listDisabled()).toMatchObject([
      { plugin: 'mail', changedBy: 'api:test' },
    ]);
    await turn(true);
    expect(await ledger.plugins.listDisabled()).toEqual([]);
    await turn(false);
    expect(await ledger.plugins.listDisabled()).toHaveLength(1);
  });
});

describe.each(databases)('a key of a caller on %s', (kind) => {
  test('is bound to the first request, its id and its answer', async () => {
    const { ledger } = await openBench(kind);
    const first = keyed('k');
    expect(await ledger.idempotencyKeys.open(first)).toEqual({
      kind: 'open',
      subjectId: first.subjectId,
    });
    expect(await ledger.idempotencyKeys.open(keyed('k'))).toEqual({
      kind: 'open',
      subjectId: first.subjectId,
    });
    await ledger.idempotencyKeys.close(first, { status: 202, answer: '{"job_id":"1"}' });
    await ledger.idempotencyKeys.close(first, { status: 500, answer: 'late' });
    await ledger.idempotencyKeys.close(first, undefined);
    const answered = { kind: 'answered', status: 202, answer: '{"job_id":"1"}' };
    expect(await ledger.idempotencyKeys.open(keyed('k'))).toEqual(answered);
    expect(await ledger.idempotencyKeys.open(keyed('k', { bodyDigest: 'x' }))).toEqual({
      kind: 'mismatch',
    });
  });

  test('is one of its actor and its route alone', async () => {
    const { ledger } = await openBench(kind);
    await ledger.idempotencyKeys.open(keyed('k'));
    for (const other of [keyed('k', { actor: 'b' }), keyed('k', { route: 'POST /b' })]) {
      expect(await ledger.idempotencyKeys.open(other)).toEqual({
        kind: 'open',
        subjectId: other.subjectId,
      });
    }
  });

  test('is free again when nothing was done, and when its time is over', async () => {
    const { ledger, sql } = await openBench(kind);
    const first = keyed('k');
    await ledger.idempotencyKeys.open(first);
    await ledger.idempotencyKeys.close(first, undefined);
    const next = keyed('k');
    expect(await ledger.idempotencyKeys.open(next)).toEqual({
      kind: 'open',
      subjectId: next.subjectId,
    });
    // A late close by the first request must not release the key, which belongs to the next one.
    await ledger.idempotencyKeys.close(first, undefined);
    await ledger.idempotencyKeys.close(first, { status: 200, answer: 'late' });
    expect(await ledger.idempotencyKeys.open(keyed('k'))).toEqual({
      kind: 'open',
      subjectId: next.subjectId,
    });
    const prune = { what: 'keys', olderThanMs: 60_000, limit: 9 } as const;
    expect(await ledger.history.prune(prune)).toBe(0);
    await sql(`update idempotency_keys set created_at = '2000-01-01T00:00:00.000Z'`);
    expect(await ledger.history.prune(prune)).toBe(1);
  });
});

const ways = databases.flatMap((source) => databases.map((target) => [source, target] as const));

test.each(ways)(
  'a backup of %s on %s has them all, and continues after them',
  async (source, target) => {
    const { ledger } = await openBench(source);
    await ledger.directives.create(creating('deploy', 60_000));
    await ledger.directives.create(
      pausing({ type: 'plugin.disable' }, (tx, actor) =>
        switchPlugin(tx, { plugin: 'mail', enabled: false }, actor),
      ),
    );
    const key = keyed('k');
    await ledger.idempotencyKeys.open(key);
    await ledger.idempotencyKeys.close(key, { status: 202, answer: '{}' });
    const from = join(await makeDirectory(), 'backup.db');
    await ledger.backup(from);
    const place = await makePlace(target);
    await restoreLedger(from, place);
    const restored = await openLedger(place, noRules);
    onTestFinished(() => restored.close());
    expect(await restored.directives.list({ limit: 9 })).toEqual(
      await ledger.directives.list({ limit: 9 }),
    );
    expect(await restored.tokens.list()).toEqual(await ledger.tokens.list());
    expect(await restored.plugins.listDisabled()).toEqual(await ledger.plugins.listDisabled());
    expect(await restored.idempotencyKeys.open(keyed('k'))).toMatchObject({
      kind: 'answered',
      status: 202,
    });
    const { directive } = await restored.directives.create(pausing());
    expect(directive.seq).toBeGreaterThan(2);
    expect(await restored.check()).toEqual([]);
  },
);
