/** A copy for `prove`: the ledger is only read, and its running work is not copied. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openReadonlyLedger } from '../../src/ledger/open-readonly.ts';
import { copyForRehearsal } from '../../extras/prove/ledger-copy.sql.ts';
import { task } from '../pipeline/graphs.ts';
import { makeDirectory } from '../support/directory.ts';
import { define, start } from '../support/ledger/runs.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { claimAs, draft, succeed } from '../support/ledger/drafts.ts';

describe.each(databases)('on %s', (kind) => {
  test('history is copied, work is not, and the ledger is as it was', async () => {
    const { ledger, place, dump } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft(), draft()] });
    const claimed = await claimAs(ledger, 'p1', { slots: 1 });
    await ledger.jobs.settle(claimed.map((job) => succeed(job)));
    await start(ledger, await define(ledger, [task('a')]));
    await ledger.meta.write('paused', '1');
    const before = await dump();
    const target = join(await makeDirectory(), 'copy.db');

    expect(await copyForRehearsal(place, target)).toEqual({
      jobs: 1,
      runs: 0,
      openJobs: 2,
      openRuns: 1,
    });
    expect(await dump()).toEqual(before);

    const copy = await openReadonlyLedger({ kind: 'sqlite', path: target });
    expect((await copy.jobs.list({ limit: 10 })).map(({ id }) => id)).toEqual(
      claimed.map(({ id }) => id),
    );
    expect(await copy.runs.list({ limit: 10 })).toEqual([]);
    expect([await copy.meta.read('paused'), await copy.check()]).toEqual(['0', []]);
    await copy.close();
  });
});
