import type { Store } from './dialect.ts';
import type { IncidentVerbs } from '../insight/types.ts';
import {
  findIncident,
  listIncidents,
  moveIncidents,
  readHeads,
  readLastEnds,
  takeWatch,
} from '../insight/incident.sql.ts';

export function makeIncidentVerbs({ find, read, write }: Store): IncidentVerbs {
  return {
    incidents: (filter) => read((session) => listIncidents(session, filter)),
    incident: (id) => find((session) => findIncident(session, id)),
    moveIncidents: (moves) => write(['enqueue'], (tx) => moveIncidents(tx, moves)),
    takeWatch: (everyMs) => write(['other'], (tx) => takeWatch(tx, everyMs)),
    queueHeads: (progressMs) => read((session) => readHeads(session, progressMs)),
    lastEnds: (limit) => read((session) => readLastEnds(session, limit)),
  };
}
