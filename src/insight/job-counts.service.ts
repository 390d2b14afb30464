import { channel } from 'node:diagnostics_channel';
import type { Directive, DirectiveMoment } from '../directive/directive.ts';
import type { SignalDraft } from '../signal/signal.ts';

/** What one process has done since it started. */
export interface Counts {
  readonly signalsEmitted: number;
  readonly directivesRequested: number;
  readonly directivesCompleted: number;
  readonly directivesFailed: number;
  readonly directivesCancelled: number;
}

/**
 * Counts signals and directives of one process once they are on the ledger, and tells whoever listens
 * within it, on the channels `ductile:signal:emitted` and `ductile:directive:<moment>`.
 */
export interface Tally {
  counts(): Counts;
  emitted(signals: readonly SignalDraft[]): void;
  /** A moment of a directive, which is a signal too. */
  directive(directive: ToldDirective, moment: DirectiveMoment): void;
}

type ToldDirective = Pick<Directive, 'id' | 'type' | 'target' | 'actor' | 'correlationId'>;

const emittedChannel = channel('ductile:signal:emitted');

/** The tenant is undefined for the root ledger. */
export function makeTally(tenant?: string): Tally {
  let signalsEmitted = 0;
  const moments = new Map<DirectiveMoment, number>();
  const countOf = (moment: DirectiveMoment): number => moments.get(moment) ?? 0;
  return {
    counts: () => ({
      signalsEmitted,
      directivesRequested: countOf('requested'),
      directivesCompleted: countOf('completed'),
      directivesFailed: countOf('failed'),
      directivesCancelled: countOf('cancelled'),
    }),
    emitted(signals) {
      signalsEmitted += signals.length;
      if (!emittedChannel.hasSubscribers) return;
      for (const { id, type, source, correlationId } of signals) {
        emittedChannel.publish({ tenant, id, type, source, correlationId });
      }
    },
    directive({ id, type, target, actor, correlationId }, moment) {
      signalsEmitted += 1;
      moments.set(moment, countOf(moment) + 1);
      const told = channel(`ductile:directive:${moment}`);
      if (told.hasSubscribers) told.publish({ tenant, id, type, target, actor, correlationId });
    },
  };
}
