import type { Store } from './dialect.ts';
import { emit } from './queries/emit.ts';
import { replay } from './queries/replay.ts';
import { groupSignals, listSignals } from './queries/signal.ts';
import type { SignalVerbs } from './signals.ts';

export function makeSignalVerbs({ read, write }: Store): SignalVerbs {
  return {
    emit: (emissions) => write(['enqueue'], (tx) => emit(tx, emissions)),
    replay: (step) => write(['enqueue'], (tx) => replay(tx, step)),
    signals: (filter) => read((session) => listSignals(session, filter)),
    signalGroups: (filter) => read((session) => groupSignals(session, filter)),
  };
}
