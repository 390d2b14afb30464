/** Measures enqueue, claim and settle, with three commits per batch, on a ledger that may have a long history. */
import { noRules } from '../../src/ledger/rules.ts';
import { z } from 'zod';
import { openLedger } from '../../src/ledger/open.ts';
import { claimRequest, enter, LEDGER_PLUGIN, makeDraft, succeeded } from './ductile.ts';
import { measure, timed } from './harness.ts';

const shape = z.object({ path: z.string(), jobs: z.number() });

const BATCH = 100;

await measure(shape, async ({ path, jobs }) => {
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
  await enter(ledger);
  const measures = await timed(async () => {
    for (let done = 0; done < jobs; done += BATCH) {
      await ledger.jobs.enqueue({
        jobs: Array.from({ length: BATCH }, () => makeDraft(LEDGER_PLUGIN)),
      });
      const claimed = await ledger.jobs.claim(claimRequest(BATCH));
      if (claimed.length !== BATCH) throw new Error(`${claimed.length} jobs were claimed`);
      await ledger.jobs.settle(claimed.map(succeeded));
    }
    return jobs;
  });
  await ledger.close();
  return measures;
});
