import type { Store } from './dialect.ts';
import type { ObservationVerbs } from '../insight/observation-types.ts';
import { listObservations, recordObservations } from '../insight/observation.sql.ts';

export function makeObservationVerbs({ read, write }: Store): ObservationVerbs {
  return {
    recordObservations: (drafts) => write(['other'], (tx) => recordObservations(tx, drafts)),
    observations: (kind) => read((session) => listObservations(session, kind)),
  };
}
