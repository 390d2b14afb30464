import type { Store } from './dialect.ts';
import { emit } from './queries/emit.ts';
import { groupSignals, listSignals } from './queries/signal.ts';
import type { SignalVerbs } from './signals.ts';

export function makeSignalVerbs({ read, write }: Store): SignalVerbs {
  return {
    emit: (emissions) => write(['enqueue'], (tx) => emit(tx, emissions)),
    signals: (filter) => read((session) => listSignals(session, filter)),
    signalGroups: (filter) => read((session) => groupSignals(session, filter)),
  };
}
