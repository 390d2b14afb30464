/** Random sequences of verbs against a model: the ledger returns the same results. */
import { noRules } from '../../src/ledger/rules.ts';
import fc from 'fast-check';
import { describe, onTestFinished, test } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import { actions, follow } from '../support/ledger/verb-sequence.ts';
import { databases, makePlace, openRaw, type Kind } from '../support/ledger/bench.ts';

const runs: Record<Kind, number> = { sqlite: 200, postgres: 40 };

describe.each(databases)('any sequence of verbs on %s', (kind) => {
  test('has the same results as the model', { timeout: 600_000 }, async () => {
    const place = await makePlace(kind);
    const ledger = await openLedger(place, noRules);
    const raw = openRaw(place);
    onTestFinished(async () => {
      await ledger.close();
      await raw.close();
    });
    await fc.assert(
      fc.asyncProperty(actions, async (sequence) => {
        await follow({ ledger, raw }, sequence);
      }),
      { numRuns: runs[kind], seed: 1 },
    );
  });
});
