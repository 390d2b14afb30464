/** The disturbances of a trial's servers, and how soon they worked again. */
import type { Disturbance, Evidence, SeenAttempt } from '../../support/crash/evidence.ts';
import type { Figures } from './report.ts';

/** The effect of a disturbance: the death of a server, or a standstill of all of them. */
export type Effect = 'death' | 'standstill' | 'other';

interface Entry extends Disturbance {
  readonly effect: Effect;
}

export interface Journal {
  readonly entries: readonly Entry[];
  /** Records a disturbance that began then and has ended; its consequences last `aftermathMs` longer. */
  note(kind: string, fromMs: number, effect: Effect, aftermathMs?: number): void;
  during<T>(kind: string, work: () => Promise<T>, effect: Effect, aftermathMs?: number): Promise<T>;
  /** The number of disturbances of each kind, and the time to recover from them. */
  tell(evidence: Evidence): Figures;
}

export function makeJournal(): Journal {
  const entries: Entry[] = [];
  const note: Journal['note'] = (kind, fromMs, effect, aftermathMs = 0) => {
    entries.push({ kind, fromMs, untilMs: Date.now() + aftermathMs, effect });
  };
  return {
    entries,
    note,
    async during(kind, work, effect, aftermathMs) {
      const fromMs = Date.now();
      try {
        return await work();
      } finally {
        note(kind, fromMs, effect, aftermathMs);
      }
    },
    tell(evidence) {
      const kinds = Map.groupBy(entries, ({ kind }) => kind);
      const times = [...kinds].map(([kind, all]) => [kind, all.length] as const);
      const samples = Object.entries(timeRecovery(entries, evidence));
      return Object.fromEntries([...times, ...samples.filter(([, list]) => list.length > 0)]);
    },
  };
}

/**
 * The time from a death to the next claim (`claimMs`), and to the claim of interrupted work
 * (`recoverMs`). After an outage, the time from its end to the next claim (`backMs`).
 */
function timeRecovery(
  all: readonly Entry[],
  { attempts }: Evidence,
): Readonly<Record<string, readonly number[]>> {
  const deaths = all.filter(({ effect }) => effect === 'death').toSorted(byTime);
  const outages = all.filter(({ effect }) => effect === 'standstill');
  const starts = attempts.map(startOf).sort((a, b) => a - b);
  const startsOf = new Map(attempts.map((row) => [`${row.jobId}:${row.attempt}`, startOf(row)]));
  const nextAfter = (moment: number): readonly number[] =>
    starts.filter((start) => start > moment).slice(0, 1);
  const recoverMs = attempts
    .filter(({ status }) => status === 'crashed')
    .flatMap((row) => {
      const endedAt = Date.parse(row.completedAt);
      const death = deaths.find(
        ({ fromMs, untilMs }) => untilMs >= startOf(row) && fromMs <= endedAt,
      );
      const next = startsOf.get(`${row.jobId}:${row.attempt + 1}`);
      return death === undefined || next === undefined ? [] : [next - death.fromMs];
    });
  return {
    claimMs: deaths.flatMap((one) => nextAfter(one.untilMs).map((next) => next - one.fromMs)),
    recoverMs,
    backMs: outages.flatMap(({ untilMs }) => nextAfter(untilMs).map((next) => next - untilMs)),
  };
}

function byTime(a: Disturbance, b: Disturbance): number {
  return a.fromMs - b.fromMs;
}

function startOf({ startedAt, completedAt }: SeenAttempt): number {
  return Date.parse(startedAt ?? completedAt);
}
