/** Measures the duration of a claim on a queue of a given length. */
import { noRules } from '../../src/ledger/rules.ts';
import { z } from 'zod';
import { openLedger } from '../../src/ledger/open.ts';
import { claimRequest, enter, succeeded } from './ductile.ts';
import { measure, percentile } from './harness.ts';

const shape = z.object({ path: z.string(), claims: z.number() });

await measure(shape, async ({ path, claims }) => {
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
  await enter(ledger);
  const times: number[] = [];
  while (times.length < claims) {
    const began = performance.now();
    const claimed = await ledger.jobs.claim(claimRequest(1));
    times.push(performance.now() - began);
    if (claimed.length !== 1) throw new Error('the queue is empty');
    await ledger.jobs.settle(claimed.map(succeeded));
  }
  await ledger.close();
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) };
});
