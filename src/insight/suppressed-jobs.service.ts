import { hash } from 'node:crypto';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { SuppressedWork } from '../engine/commit-events.ts';

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
