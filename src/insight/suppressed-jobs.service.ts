import { hash } from 'node:crypto';
import type { JsonObject } from '../base/json.ts';
import type { JobDraft } from '../job/job.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Enqueued } from '../job/types.ts';
import { overlayLedger, type Ledger } from '../ledger/ledger.ts';
import type { RunDraft, RunStart } from '../pipeline/run/types.ts';
import { limits } from '../base/limits.ts';

/** Work that was dropped because a job, run or signal holds its dedupe key. */
export interface SuppressedWork {
  /** What would have been done, such as `mail/handle`. */
  readonly target: string;
  readonly dedupeKey: string;
  readonly holderKind: 'job' | 'run' | 'signal';
  readonly holderId: string;
  readonly payload: string;
}

/**
 * Reports work that a ledger drops because of its dedupe key. Only results that are at hand anyway are
 * looked at: nothing is read or written for it.
 */
export function watchSuppressed(ledger: Ledger, onWork: (work: SuppressedWork) => void): Ledger {
  const noteJobs = (drafts: readonly JobDraft[], enqueued: readonly Enqueued[]): void => {
    if (enqueued.every(({ duplicateOf }) => duplicateOf === undefined)) return;
    const byId = new Map(drafts.map((draft) => [draft.id, draft]));
    for (const { jobId, duplicateOf } of enqueued) {
      const draft = byId.get(jobId);
      if (duplicateOf === undefined || draft?.dedupe === undefined) continue;
      const { plugin, command, payload, dedupe } = draft;
      const target = `${plugin}/${command}`;
      const holder = { holderKind: 'job', holderId: duplicateOf } as const;
      onWork({ target, dedupeKey: dedupe.key, payload, ...holder });
    }
  };
  const noteRuns = (drafts: readonly RunDraft[], started: readonly RunStart[]): void => {
    if (started.every(({ duplicateOf }) => duplicateOf === undefined)) return;
    for (const [at, { duplicateOf }] of started.entries()) {
      const draft = drafts[at];
      if (duplicateOf === undefined || draft?.dedupe === undefined) continue;
      const holder = { holderKind: 'run', holderId: duplicateOf } as const;
      const { pipeline, payload, dedupe } = draft;
      onWork({ target: pipeline, dedupeKey: dedupe.key, payload, ...holder });
    }
  };
  return overlayLedger(ledger, {
    jobs: {
      async enqueue(batch) {
        const enqueued = await ledger.jobs.enqueue(batch);
        noteJobs(batch.jobs, enqueued);
        return enqueued;
      },
      async settle(closings, claim) {
        const settlement = await ledger.jobs.settle(closings, claim);
        noteJobs(listJobs(closings, settlement.enqueued), settlement.enqueued);
        return settlement;
      },
    },
    runs: {
      async start(batch) {
        const started = await ledger.runs.start(batch);
        noteJobs(batch.jobs, started.jobs);
        noteRuns(batch.runs ?? [], started.runs);
        return started;
      },
    },
    signals: {
      async emit(emissions) {
        const emitted = await ledger.signals.emit(emissions);
        for (const [at, { created, signalId }] of emitted.told.entries()) {
          const { signal, rerun } = emissions[at] ?? {};
          if (created || rerun === true || signal?.dedupeKey === undefined) continue;
          const { type, source, dedupeKey, data } = signal;
          const holder = { holderKind: 'signal', holderId: signalId } as const;
          onWork({ target: `${source} ${type}`, dedupeKey, payload: data, ...holder });
        }
        return emitted;
      },
    },
  });
}

function listJobs(closings: readonly Closing[], enqueued: readonly Enqueued[]): JobDraft[] {
  return enqueued.length === 0 ? [] : closings.flatMap(({ jobs }) => jobs);
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
