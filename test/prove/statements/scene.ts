/** A request to a ledger that can be repeated until it succeeds. */
import { makeId } from '../../../src/base/ids.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import type { Emission } from '../../../src/pipeline/run/types.ts';
import type { Bench } from '../../support/ledger/bench.ts';
import { draft } from '../../support/ledger/drafts.ts';

export interface World extends Pick<Bench, 'ledger' | 'sql' | 'place'> {
  /** Is here once: names that no other scene has. */
  readonly name: string;
}

/** Sets the world up, and says what is to be asked. Whatever has an id has it before. */
export type Scene = (world: World) => Promise<() => Promise<unknown>>;

/** Everything that can be asked of a ledger. */
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
  const said = signal(source);
  return { signal: said, jobs: [draft({ sourceEventId: said.id })], runs: [] };
}
