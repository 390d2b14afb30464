import type { Timestamp } from '../base/clock.ts';
import type { Signal, SignalDraft } from '../signal/signal.ts';
import type { Followers, RunNews } from './runs.ts';

/** What a ledger can do with signals. Those of attempts come with `settle`. */
export interface SignalVerbs {
  /**
   * Records what somebody reports, each with all that follows from it; what was reported before is
   * told, and leads to nothing. Committed when it resolves.
   */
  emit(emissions: readonly Emission[]): Promise<Emitted>;
  signals(filter: SignalFilter): Promise<Signal[]>;
  /** How many there are of each source and type, among the oldest that fit. */
  signalGroups(filter: SignalFilter): Promise<SignalGroup[]>;
}

/** The jobs carry no dedupe keys: the signal itself is there once. */
export interface Emission extends Followers {
  readonly signal: SignalDraft;
}

export interface Emitted {
  /** One for each emission, in their order. */
  readonly told: readonly ToldSignal[];
  readonly news: RunNews;
}

export interface ToldSignal {
  readonly signalId: string;
  /** False when it was there before. */
  readonly created: boolean;
}

export interface SignalFilter {
  readonly id?: string;
  /** Only ids that begin so. */
  readonly idPrefix?: string;
  readonly type?: string;
  readonly source?: string;
  readonly subjectType?: string;
  readonly subjectId?: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly dedupeKey?: string;
  readonly sourceEventId?: string;
  readonly jobId?: string;
  readonly visibility?: 'internal' | 'admin_only';
  /** Happened not before, and before. */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  readonly upToSeq?: number;
  /** Keyset page: rows behind this one, in the order of the list. */
  readonly beforeSeq?: number;
  readonly order?: 'newest' | 'oldest';
  readonly limit: number;
}

export interface SignalGroup {
  readonly source: string;
  readonly type: string;
  readonly count: number;
}
