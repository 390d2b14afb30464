/** Frequent statements are planned once: SQLite takes longer to plan than to read. */
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { expect, onTestFinished, test, vi } from 'vitest';
import { makeId, makeToken } from '../../src/base/ids.ts';
import { prunableKinds } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openBench } from '../support/ledger/bench.ts';
import { beat, request } from '../support/ledger/drafts.ts';

/** Members that the types of Node don't have yet. */
type Counting = StatementSync & { stat(counter: 'reprepare' | 'run'): number };

/** The statements that were compiled during a test. */
function watchStatements(): Map<Counting, string> {
  // eslint-disable-next-line typescript/unbound-method -- it is called on its own database below
  const prepare = DatabaseSync.prototype.prepare;
  const seen = new Map<Counting, string>();
  const spy = vi.spyOn(DatabaseSync.prototype, 'prepare');
  spy.mockImplementation(function (this: DatabaseSync, text: string) {
    const statement = prepare.call(this, text) as Counting;
    seen.set(statement, text);
    return statement;
  });
  onTestFinished(() => spy.mockRestore());
  return seen;
}

async function lookForWork(ledger: Ledger, limit: number): Promise<void> {
  const token = makeToken();
  const now = await ledger.now();
  await ledger.processes.heartbeat(beat('one'));
  await ledger.jobs.settle([], request('one', { token, slots: limit }));
  await ledger.runs.claimBranches({ processId: 'one', token, limit });
  await ledger.schedules.listDue({ now, limit });
  await ledger.directives.listDue(['job.cancel'], limit);
  await ledger.tenants.listDue(limit);
  await ledger.jobs.promote();
  await ledger.incidents.list({ isOpen: true, limit });
  await ledger.schedules.list({ limit });
  for (const what of prunableKinds) {
    await ledger.history.prune({ what, olderThanMs: 1, limit });
    await ledger.history.countPrunable({ what, olderThanMs: 1, limit });
  }
  await lookAtHistory(ledger, limit);
  await ledger.directives.list({ idPrefix: makeId(), limit });
}

async function lookAtHistory(ledger: Ledger, limit: number): Promise<void> {
  await ledger.jobs.list({ plugin: 'echo', limit });
  await ledger.jobs.count({ plugin: 'echo', limit });
  await ledger.attempts.list({ plugin: 'echo', limit });
  await ledger.signals.list({ limit });
  await ledger.runs.list({ limit });
  await ledger.deliveries.list({ webhookId: 'one', limit });
}

test('no statement of a round is planned again, however many rows are read', async () => {
  const { ledger } = await openBench('sqlite');
  const statements = watchStatements();
  for (const limit of [1, 2, 3]) await lookForWork(ledger, limit);
  const again = [...statements].filter(([statement]) => statement.stat('reprepare') > 0);
  expect(statements.size).toBeGreaterThan(10);
  expect(again.map(([, text]) => text)).toEqual([]);
});
