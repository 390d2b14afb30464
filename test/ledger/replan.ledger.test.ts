/** What an engine asks again and again is planned once: SQLite takes longer to plan than to look. */
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { expect, onTestFinished, test, vi } from 'vitest';
import { makeId, makeToken } from '../../src/base/ids.ts';
import { prunable } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openBench } from '../support/ledger/bench.ts';
import { beat, request } from '../support/ledger/drafts.ts';

/** What the types of Node do not know yet. */
type Counting = StatementSync & { stat(counter: 'reprepare' | 'run'): number };

/** The statements that were compiled while somebody looked. */
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
  await ledger.heartbeat(beat('one'));
  await ledger.settle([], request('one', { token, slots: limit }));
  await ledger.claimBranches({ processId: 'one', token, limit });
  await ledger.dueSchedules({ now, limit });
  await ledger.dueDirectives(['job.cancel'], limit);
  await ledger.dueTenants(limit);
  await ledger.promote();
  await ledger.incidents({ isOpen: true, limit });
  await ledger.schedules({ limit });
  for (const what of prunable) {
    await ledger.prune({ what, olderThanMs: 1, limit });
    await ledger.countPrunable({ what, olderThanMs: 1, limit });
  }
  await lookAtHistory(ledger, limit);
  await ledger.directives({ idPrefix: makeId(), limit });
}

async function lookAtHistory(ledger: Ledger, limit: number): Promise<void> {
  await ledger.jobs({ plugin: 'echo', limit });
  await ledger.countJobs({ plugin: 'echo', limit });
  await ledger.attemptsOf({ plugin: 'echo', limit });
  await ledger.signals({ limit });
  await ledger.runs({ limit });
  await ledger.deliveries({ hookId: 'one', limit });
}

test('nothing of a round is planned again, however much is asked for', async () => {
  const { ledger } = await openBench('sqlite');
  const statements = watchStatements();
  for (const limit of [1, 2, 3]) await lookForWork(ledger, limit);
  const again = [...statements].filter(([statement]) => statement.stat('reprepare') > 0);
  expect(statements.size).toBeGreaterThan(10);
  expect(again.map(([, text]) => text)).toEqual([]);
});
