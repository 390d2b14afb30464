/** Work that is claimed in the commit that accepts it, where writes of one moment share one. */
import { expect, test } from 'vitest';
import { heraldWork } from '../../src/job/announce-work.service.ts';
import { makeToken } from '../../src/base/ids.ts';
import type { ClaimedJob } from '../../src/job/types.ts';
import { define, runOf } from '../support/ledger/runs.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { beat, claimable, draft, request } from '../support/ledger/drafts.ts';
import { task } from '../pipeline/graphs.ts';

const signal = { id: 's1', type: 'a.b', source: 'api', data: '{}', hops: 1, correlationId: 's1' };

test('the claim on SQLite follows the write and comes before its commit', async () => {
  const { ledger } = await openBench('sqlite');
  const graph = await define(ledger, [task('only', { plugin: 'echo' })]);
  await ledger.processes.heartbeat(beat('p1'));
  const claims: Promise<ClaimedJob[]>[] = [];
  const claim = request('p1', { slots: 9, plugins: [claimable('echo', { parallelism: 9 })] });
  const entrance = heraldWork(ledger, () => {
    setImmediate(() => claims.push(ledger.jobs.claim({ ...claim, token: makeToken() })));
  });
  /** How many jobs were claimed by what had been asked for when the write was answered. */
  const claimedWith = async (write: Promise<unknown>): Promise<number> => {
    await write;
    return (await Promise.all(claims.splice(0))).flat().length;
  };

  expect(await claimedWith(entrance.jobs.enqueue({ jobs: [draft()] }))).toBe(1);
  const emission = { signal, jobs: [draft({ sourceEventId: 's1' })], runs: [] };
  expect(await claimedWith(entrance.signals.emit([emission]))).toBe(1);
  expect(await claimedWith(entrance.runs.start({ jobs: [], runs: [runOf(graph)] }))).toBe(1);
});

test.each(databases)('a commit without new work is not announced, on %s', async (kind) => {
  const { ledger } = await openBench(kind);
  let announced = 0;
  const entrance = heraldWork(ledger, () => (announced += 1));
  await entrance.signals.emit([{ signal, jobs: [], runs: [] }]);
  await entrance.jobs.enqueue({ jobs: [] });
  expect(announced).toBe(0);
  await entrance.jobs.enqueue({ jobs: [draft()] });
  // Elsewhere the claim would be another transaction, and come too early.
  expect(announced).toBe(kind === 'sqlite' ? 1 : 0);
});
