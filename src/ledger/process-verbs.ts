import type { Store } from './dialect.ts';
import type { Ledger } from './ledger.ts';
import {
  expiredClaims,
  heartbeat,
  leave,
  listProcesses,
  orphans,
  queuedOf,
  reap,
  unrunnable,
} from '../job/process.sql.ts';

type ProcessVerb =
  | 'reap'
  | 'heartbeat'
  | 'leave'
  | 'orphans'
  | 'unrunnable'
  | 'queuedOf'
  | 'expiredClaims'
  | 'processes';

/** Processes that live, leave or die, and what they leave behind. */
export function makeProcessVerbs({ read, write }: Store): Pick<Ledger, ProcessVerb> {
  return {
    reap: (request) =>
      write(['reap'], async (tx) => ({ ...(await reap(tx, request)), claimed: [] })),
    heartbeat: (beat) => write(['heartbeat'], (tx) => heartbeat(tx, beat)),
    leave: (processId) => write(['other'], (tx) => leave(tx, processId)),
    orphans: (request) => read((session) => orphans(session, request)),
    unrunnable: (request) => read((session) => unrunnable(session, request)),
    queuedOf: (plugin, limit) => read((session) => queuedOf(session, plugin, limit)),
    expiredClaims: () => read(expiredClaims),
    processes: () => read(listProcesses),
  };
}
