/** The slices of a run that is too large to be shown whole. */
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { findOwners, readParts } from '../../src/pipeline/run/run.service.ts';
import { toTree } from '../../src/pipeline/run/run.operations.ts';
import { foreach, task } from './graphs.ts';
import { carryOn, define, done, findRun, start } from '../support/ledger/runs.ts';
import { databases, openBench, range } from '../support/ledger/bench.ts';
import { fail } from '../support/ledger/drafts.ts';

const wide = limits.pageRowsMax + 100;

function indexOf(payload: string): number {
  return Number((JSON.parse(payload) as { index?: number }).index);
}

describe.each(databases)('a large run on %s', (kind) => {
  test('branches stand under their block, and what failed is among them', async () => {
    const { ledger } = await openBench(kind);
    const each = foreach('each', 'a', { next: 'z', maxFanout: wide });
    const graph = await define(ledger, [each, task('a'), task('z')]);
    const good = await start(ledger, graph, { items: range(wide) });
    await carryOn(ledger, graph);
    const whole = await readParts(ledger, await findRun(ledger, good.id));
    expect(whole).toMatchObject({ complete: false });
    expect([whole.steps.length, whole.branches.length]).toEqual([
      limits.pageRowsMax,
      limits.pageRowsMax,
    ]);
    expect(new Set(findOwners(whole).values())).toEqual(new Set(['each']));
    const steps = toTree(whole).filter(({ depth }) => depth === 0);
    expect(steps.map(({ kind: what, name }) => `${what} ${name}`)).toEqual([
      'foreach each',
      'task z',
    ]);

    const bad = await start(ledger, graph, { items: range(wide) });
    const last = wide - 1;
    await carryOn(ledger, graph, (job) => (indexOf(job.payload) === last ? fail(job) : done(job)));
    const run = await findRun(ledger, bad.id);
    expect(run.status).toBe('halted');
    const parts = await readParts(ledger, run);
    expect(parts.steps.filter(({ status }) => status === 'failed')).toHaveLength(2);
    expect(toTree(parts).filter(({ status }) => status === 'halted')).toMatchObject([
      { kind: 'branch', name: `${last}`, depth: 1 },
    ]);
  });
});
