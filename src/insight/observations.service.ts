import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { maskText } from '../base/secrets.ts';
import type { JsonObject } from '../base/json.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import { makeSuppressedCounter, watchSuppressed } from './suppressed-jobs.service.ts';
import type { ObservationDraft, ObservationKind } from './observation-types.ts';

/** Counts what this process turns away, and writes the counts to the ledger every few seconds. */
export interface Observations {
  /** Costs a few operations on a map: it is called on the paths that refuse callers. */
  note(kind: ObservationKind, key: string, detail: JsonObject): void;
  /** The same ledger; the work that it drops because of a dedupe key is counted here. */
  watch(ledger: Ledger): Ledger;
  /** Writes what is left. */
  stop(): Promise<void>;
}

export interface ObservationsOptions {
  readonly ledger: LedgerSubset<'observations.record'>;
  readonly log: Log;
}

interface Count {
  readonly kind: ObservationKind;
  readonly key: string;
  count: number;
  detail: JsonObject;
}

export function makeObservations({ ledger, log }: ObservationsOptions): Observations {
  let counts = new Map<string, Count>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;

  const write = async (): Promise<void> => {
    timer = undefined;
    if (counts.size === 0) return;
    const drafts = [...counts.values()].map(toDraft);
    counts = new Map();
    try {
      await ledger.observations.record(drafts);
    } catch (error) {
      // They are only figures; the next ones will be written.
      log.debug('observations were not recorded', { error: messageOf(error) });
    }
  };

  const note: Observations['note'] = (kind, key, detail) => {
    const masked = maskText(key).slice(0, limits.observations.keyCharsMax);
    const place = `${kind} ${masked}`;
    const known = counts.get(place);
    if (known !== undefined) {
      known.count += 1;
      known.detail = detail;
      return;
    }
    // Nobody fills the memory of a process by sending keys that it hasn't seen.
    if (counts.size >= limits.observations.keysMax) return;
    counts.set(place, { kind, key: masked, count: 1, detail });
    timer ??= setTimeout(() => {
      writing = write();
    }, limits.observations.flushMs).unref();
  };
  const count = makeSuppressedCounter(note);

  return {
    note,
    watch: (watched) => watchSuppressed(watched, count),
    async stop() {
      clearTimeout(timer);
      await writing;
      await write();
    },
  };
}

function toDraft({ kind, key, count, detail }: Count): ObservationDraft {
  return { kind, key, count, detail: maskText(JSON.stringify(detail)) };
}
