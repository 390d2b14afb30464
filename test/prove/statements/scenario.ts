/** A request to a ledger that can be repeated until it succeeds. */
import { makeId } from '../../../src/base/ids.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import type { Emission } from '../../../src/pipeline/run/types.ts';
import type { Bench } from '../../support/ledger/bench.ts';
import { draft } from '../../support/ledger/drafts.ts';

export interface World extends Pick<Bench, 'ledger' | 'sql' | 'place'> {
  /** A unique prefix for the names of this scenario. */
  readonly name: string;
}

/** Sets the world up, and returns the request. All ids are made before. */
export type Scenario = (world: World) => Promise<() => Promise<unknown>>;

/** Every verb of a ledger. */
export type Verb = {
  [K in keyof Ledger]: Ledger[K] extends (...given: never[]) => Promise<unknown>
    ? K
    : Ledger[K] extends Readonly<Record<string, (...given: never[]) => Promise<unknown>>>
      ? `${K}.${keyof Ledger[K] & string}`
      : never;
}[keyof Ledger];

export function signal(source = 'api') {
  const id = makeId();
  return { id, type: 'a.b', source, data: '{}', hops: 1, correlationId: id };
}

export function emission(source?: string): Emission {
  const signalDraft = signal(source);
  return { signal: signalDraft, jobs: [draft({ sourceEventId: signalDraft.id })], runs: [] };
}
