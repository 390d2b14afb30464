import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { maskText } from '../base/secrets.ts';
import type { JsonObject } from '../base/json.ts';
import type { ObservationDraft, ObservationKind } from './types.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { SuppressedWork } from '../engine/commit-events.ts';
import { hash } from 'node:crypto';

/** Counts what this process turns away, and writes the counts to the ledger every few seconds. */
export interface Observations {
  /** Costs a few operations on a map: it is called on the paths that refuse callers. */
  note(kind: ObservationKind, key: string, detail: JsonObject): void;
  /** Counts work that was dropped because its dedupe key is taken. */
  noteSuppressed(work: readonly SuppressedWork[]): void;
  /** Writes what is left. */
  stop(): Promise<void>;
}

interface Count {
  readonly kind: ObservationKind;
  readonly key: string;
  count: number;
  detail: JsonObject;
}

export function makeObservations(context: LedgerContext): Observations {
  const { ledger } = context;
  const log = context.log.child('engine');
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
    noteSuppressed(work) {
      for (const one of work) count(one);
    },
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

/** Counts suppressed work by its key, with how many different payloads it had. */
export function makeSuppressedCounter(
  note: (kind: 'job_suppressed', key: string, detail: JsonObject) => void,
): (work: SuppressedWork) => void {
  const payloads = new Map<string, Set<string>>();
  return ({ target, dedupeKey, holderKind, holderId, payload }) => {
    const key = `${target} ${dedupeKey}`;
    const seen = payloads.get(key) ?? new Set<string>();
    // Put behind all others, so that the key that was quiet for longest is forgotten first.
    payloads.delete(key);
    payloads.set(key, seen);
    if (payloads.size > limits.observations.keysMax) {
      const [oldest = key] = payloads.keys();
      payloads.delete(oldest);
    }
    if (seen.size < DIFFERENT_MAX) seen.add(hash('sha256', payload, 'base64').slice(0, 12));
    const detail = { target, dedupe_key: dedupeKey, holder_kind: holderKind, holder_id: holderId };
    note('job_suppressed', key, { ...detail, different: seen.size });
  };
}

/** Beyond this, more different payloads say nothing new. */
const DIFFERENT_MAX = 50;
