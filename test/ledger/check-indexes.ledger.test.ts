import { expect, test } from 'vitest';
import { databases, openBench } from '../support/ledger/bench.ts';
import { startOne } from '../support/ledger/drafts.ts';

test.each(databases)('the indexes of a sound ledger on %s match their tables', async (kind) => {
  const { ledger, sql } = await openBench(kind);
  await startOne(ledger, 'p1');
  if (kind === 'postgres') {
    await sql('create extension if not exists amcheck schema pg_catalog').catch(() => 'not there');
  }
  const { problems, skipped } = await ledger.checkIndexes();
  expect(problems).toEqual([]);
  if (kind === 'sqlite') expect(skipped).toBeNull();
  else if (skipped !== null) expect(skipped).toContain('amcheck');
});
