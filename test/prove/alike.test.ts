/**
 * The model, SQLite and PostgreSQL get the same requests: they return the same results and hold the
 * same rows.
 */
import { noRules } from '../../src/ledger/rules.ts';
import fc from 'fast-check';
import { expect } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import type { Model } from '../support/ledger/model.ts';
import { actions, follow, type Action } from '../support/ledger/verb-sequence.ts';
import { databases, makePlace, openRaw } from '../support/ledger/bench.ts';
import { campaign } from './support/campaign.ts';

const SEQUENCES = 50;
const SEQUENCES_SHORT = 4;

campaign('alike', { trials: 1, timeoutMs: 600_000 }, async ({ seed, isShort }) => {
  const numRuns = isShort ? SEQUENCES_SHORT : SEQUENCES;
  const sequences = fc.sample(actions, { numRuns, seed });
  const results: string[][] = [];
  for (const kind of databases) {
    const place = await makePlace(kind);
    const ledger = await openLedger(place, noRules);
    const raw = openRaw(place);
    try {
      const histories: string[] = [];
      for (const sequence of sequences)
        histories.push(tell(await follow({ ledger, raw }, sequence.map(apart))));
      results.push(histories);
    } finally {
      await ledger.close();
      await raw.close();
    }
  }
  const [one, two] = results;
  expect(two).toEqual(one);
  const commands = sequences.reduce((sum, sequence) => sum + sequence.length, 0);
  return { sequences: sequences.length, commands };
});

/** Each at its own time: at the same time, a faster database would have more ready jobs. */
function apart(act: Action): Action {
  return {
    ...act,
    run: async (world) => {
      await act.run(world);
      const { ledger } = world;
      const before = await ledger.now();
      while ((await ledger.now()) === before);
    },
  };
}

/** The outcome; ids are replaced by the order of their jobs. */
function tell({ jobs, log }: Model): string {
  const names = new Map(jobs.map(({ id }, index) => [id, index]));
  const rows = jobs.map(({ plugin, status, attempt }) => [plugin, status, attempt]);
  const ends = log.map(([id = '', attempt, , ...how]) => [names.get(id), attempt, ...how]);
  return JSON.stringify([rows, ends]);
}
