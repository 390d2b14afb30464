import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { maskText } from '../base/secrets.ts';
import type { JsonObject } from '../base/json.ts';
import type { ObservationDraft, ObservationKind } from './types.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { SuppressedWork } from '../engine/commit-events.ts';
import { hash } from 'node:crypto';

/** Counts refused calls and suppressed work, and writes the counts to the ledger every few seconds. */
export interface Observations {
  /** Counts one observation. It is cheap, because it is called for each refused request. */
  count(kind: ObservationKind, key: string, detail: JsonObject): void;
  /** Counts work that was dropped because of its dedupe key. */
  countSuppressed(work: readonly SuppressedWork[]): void;
  /** Writes the remaining counts. */
  stop(): Promise<void>;
}

interface ObservationCount {
  readonly kind: ObservationKind;
  readonly key: string;
  count: number;
  detail: JsonObject;
}

export function makeObservations(context: LedgerContext): Observations {
  const { ledger } = context;
  const log = context.log.child('engine');
  let counts = new Map<string, ObservationCount>();
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
      // These counts are lost, which only makes the figures smaller.
      log.debug('observations were not recorded', { error: messageOf(error) });
    }
  };

  const count: Observations['count'] = (kind, key, detail) => {
    const masked = maskText(key).slice(0, limits.observations.keyCharsMax);
    const countKey = `${kind} ${masked}`;
    const known = counts.get(countKey);
    if (known !== undefined) {
      known.count += 1;
      known.detail = detail;
      return;
    }
    // A caller must not fill the memory of the process with new keys.
    if (counts.size >= limits.observations.keysMax) return;
    counts.set(countKey, { kind, key: masked, count: 1, detail });
    timer ??= setTimeout(() => {
      writing = write();
    }, limits.observations.flushMs).unref();
  };
  const countWork = makeSuppressedCounter(count);

  return {
    count,
    countSuppressed(work) {
      for (const one of work) countWork(one);
    },
    async stop() {
      clearTimeout(timer);
      await writing;
      await write();
    },
  };
}

function toDraft({ kind, key, count, detail }: ObservationCount): ObservationDraft {
  return { kind, key, count, detail: maskText(JSON.stringify(detail)) };
}

/** Counts suppressed work by its key, with how many different payloads it had. */
function makeSuppressedCounter(
  count: (kind: 'job_suppressed', key: string, detail: JsonObject) => void,
): (work: SuppressedWork) => void {
  const payloads = new Map<string, Set<string>>();
  return ({ target, dedupeKey, holderKind, holderId, payload }) => {
    const key = `${target} ${dedupeKey}`;
    const seen = payloads.get(key) ?? new Set<string>();
    // Move the key to the end, so that the key that was unused for longest is dropped first.
    payloads.delete(key);
    payloads.set(key, seen);
    if (payloads.size > limits.observations.keysMax) {
      const [oldest = key] = payloads.keys();
      payloads.delete(oldest);
    }
    if (seen.size < DIFFERENT_MAX) seen.add(hash('sha256', payload, 'base64').slice(0, 12));
    const detail = { target, dedupe_key: dedupeKey, holder_kind: holderKind, holder_id: holderId };
    count('job_suppressed', key, { ...detail, different: seen.size });
  };
}

/** The most different payloads that are counted for one key. */
const DIFFERENT_MAX = 50;
