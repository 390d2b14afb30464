import type { Store } from './dialect.ts';
import { emit } from '../signal/emit.sql.ts';
import { replay } from '../signal/replay.sql.ts';
import { groupSignals, listSignals } from '../signal/signal.sql.ts';
import type { SignalVerbs } from '../signal/types.ts';

export function makeSignalVerbs({ read, write }: Store): SignalVerbs {
  return {
    emit: (emissions) => write(['enqueue'], (tx) => emit(tx, emissions)),
    replay: (step) => write(['enqueue'], (tx) => replay(tx, step)),
    signals: (filter) => read((session) => listSignals(session, filter)),
    signalGroups: (filter) => read((session) => groupSignals(session, filter)),
  };
}
