import { setCredential, deleteCredential } from '../../src/access/credential.sql.ts';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { SealedText } from '../../src/base/seal.ts';
import type { CredentialDraft, SealedRow } from '../../src/access/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { pausing } from '../support/ledger/drafts.ts';

const sealed = (keyId: string, text = 'v1.a.b'): SealedText => ({ keyId, text });

async function set(ledger: Ledger, name: string, more: Partial<CredentialDraft> = {}) {
  const credential: CredentialDraft = {
    id: makeId(),
    name,
    provider: null,
    sealed: sealed('k1'),
    expiresInMs: undefined,
    ...more,
  };
  const about = { type: 'credential.set', target: `credential:${name}`, sameness: 'each' } as const;
  return ledger.directives.create(
    pausing(about, (tx, actor) => setCredential(tx, credential, actor)),
  );
}

const signal = (more: Partial<SignalDraft> = {}): SignalDraft => {
  const id = makeId();
  return { id, type: 'a.b', source: 'test', data: '{}', hops: 1, correlationId: id, ...more };
};

describe.each(databases)('credentials on %s', (kind) => {
  test('are set, replaced under the same id, used and deleted', async () => {
    const { ledger } = await openBench(kind);
    const { directive } = await set(ledger, 'api', { provider: 'github' });
    expect(JSON.parse(directive.result ?? '')).toMatchObject({ created: true, expires_at: null });
    const before = await ledger.credentials.find('api');
    expect(before).toMatchObject({ provider: 'github', sealed: sealed('k1'), isExpired: false });
    await set(ledger, 'api', { sealed: sealed('k2', 'v1.c.d'), expiresInMs: 60_000 });
    const after = await ledger.credentials.find('api');
    expect(after).toMatchObject({ id: before?.id, keyId: 'k2', provider: null });
    expect(after?.expiresAt).not.toBeNull();
    expect(after?.lastUsedAt).toBeNull();
    await ledger.credentials.recordUse(['api', 'unknown']);
    expect((await ledger.credentials.list())[0]?.lastUsedAt).not.toBeNull();

    const about = {
      type: 'credential.delete',
      target: 'credential:api',
      sameness: 'each',
    } as const;
    const remove = () =>
      ledger.directives.create(pausing(about, (tx) => deleteCredential(tx, 'api')));
    expect((await remove()).directive.status).toBe('completed');
    expect(await ledger.credentials.find('api')).toBeUndefined();
    expect((await remove()).directive).toMatchObject({
      status: 'failed',
      errorCode: 'CREDENTIAL_NOT_FOUND',
    });
  });

  test('and payloads are found by their key, page by page, and sealed again unless they changed', async () => {
    const { ledger } = await openBench(kind);
    for (const name of ['a', 'b', 'c']) await set(ledger, name);
    const signals = [1, 2].map(() => signal({ sealed: sealed('k1', 'v1.p.q') }));
    await ledger.signals.emit(signals.map((one) => ({ signal: one, jobs: [], runs: [] })));
    await ledger.jobs.enqueue({ jobs: [], signals: [signal({ sealed: sealed('k1') })] });
    expect(await ledger.seals.count()).toEqual([
      { keyId: 'k1', credentials: 3, payloads: 3, webhooks: 0 },
    ]);
    const found: SealedRow[] = [];
    for (;;) {
      const page = await ledger.seals.list('k1', found.at(-1), 2);
      if (page.length === 0) break;
      found.push(...page);
    }
    expect(found.map(({ kind: what }) => what)).toEqual([
      'credential',
      'credential',
      'credential',
      'payload',
      'payload',
      'payload',
    ]);
    await set(ledger, 'b', { sealed: sealed('k1', 'v1.new.er') });
    const after = sealed('k2', 'v1.x.y');
    expect(await ledger.seals.replace(found.map((thing) => ({ ...thing, after })))).toBe(5);
    expect(await ledger.seals.count()).toEqual([
      { keyId: 'k1', credentials: 1, payloads: 0, webhooks: 0 },
      { keyId: 'k2', credentials: 2, payloads: 3, webhooks: 0 },
    ]);
    expect((await ledger.credentials.find('b'))?.sealed.text).toBe('v1.new.er');
    expect(await ledger.seals.replace([])).toBe(0);
  });

  test('payloads belong to their signals, once however often they come, and are deleted with them', async () => {
    const { ledger, sql } = await openBench(kind);
    const keyed = signal({ sealed: sealed('k1', 'v1.p.q'), dedupeKey: 'once' });
    const again = { ...keyed, id: makeId(), sealed: sealed('k1', 'v1.other.one') };
    const plain = signal();
    for (const one of [keyed, keyed, again, plain]) {
      await ledger.signals.emit([{ signal: one, jobs: [], runs: [] }]);
    }
    const ids = [keyed.id, again.id, plain.id, 'unknown'];
    const expected = [{ signalId: keyed.id, sealed: sealed('k1', 'v1.p.q') }];
    expect(await ledger.signals.listSealedPayloads(ids)).toEqual(expected);
    expect(await ledger.signals.listSealedPayloads([])).toEqual([]);
    await sql(`update signals set inserted_at = '2020-01-01T00:00:00.000Z',
      occurred_at = '2020-01-01T00:00:00.000Z'`);
    expect(await ledger.history.prune({ what: 'signals', olderThanMs: 1000, limit: 10 })).toBe(2);
    expect(await ledger.signals.listSealedPayloads(ids)).toEqual([]);
  });
});
