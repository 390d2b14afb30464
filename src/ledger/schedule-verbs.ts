import type { Store } from './dialect.ts';
import { countOpenBreakers, listBreakers, listTransitions } from '../schedule/breaker-row.sql.ts';
import { fire } from '../schedule/fire.sql.ts';
import { lastLoaded, livePlugins } from '../job/process.sql.ts';
import {
  dueSchedules,
  listSchedules,
  retireSchedules,
  syncSchedules,
} from '../schedule/schedule.sql.ts';
import type { ScheduleVerbs } from '../schedule/types.ts';

export function makeScheduleVerbs({ read, write }: Store): ScheduleVerbs {
  return {
    syncSchedules: (drafts) => write(['other'], (tx) => syncSchedules(tx, drafts)),
    retireSchedules: (keys) => write(['other'], (tx) => retireSchedules(tx, keys)),
    dueSchedules: (request) => read((session) => dueSchedules(session, request)),
    fire: (request) => write(['fire'], (tx) => fire(tx, request)),
    schedules: (filter) => read((session) => listSchedules(session, filter)),
    livePlugins: (staleMs) => read((session) => livePlugins(session, staleMs)),
    lastLoaded: (staleMs) => read((session) => lastLoaded(session, staleMs)),
    breakers: (filter) => read((session) => listBreakers(session, filter)),
    transitions: (filter) => read((session) => listTransitions(session, filter)),
    countOpenBreakers: () => read(countOpenBreakers),
  };
}
