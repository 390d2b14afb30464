import type { Store, VerbName } from './dialect.ts';
import type { DirectiveVerbs, DirectRequest } from '../directive/types.ts';
import { cancelMany, retryMany } from '../job/bulk.sql.ts';
import {
  approveDirective,
  cancelDirective,
  listDueDirectives,
  releaseDirective,
  startDirective,
} from '../directive/deferred.sql.ts';
import {
  closeDirective,
  direct,
  findDirective,
  listDirectives,
} from '../directive/directive.sql.ts';
import { closeKey, openKey } from '../operation/idempotency.sql.ts';
import { directiveStatistics } from '../insight/statistics.sql.ts';
import {
  claimTokenNames,
  describeTakenName,
  listSwitchedOff,
  listTokenOrigins,
  listTokens,
  noteTokenUse,
} from '../access/token.sql.ts';

export function makeDirectiveVerbs({
  find,
  read,
  write,
}: Store): Omit<DirectiveVerbs, 'handleSignals'> {
  return {
    direct: (request) => write([verbOf(request)], (tx) => direct(tx, request)),
    startDirective: (start) => write([verbOf(start)], (tx) => startDirective(tx, start)),
    approveDirective: (decision) => write(['other'], (tx) => approveDirective(tx, decision)),
    cancelDirective: (decision) => write(['other'], (tx) => cancelDirective(tx, decision)),
    dueDirectives: (types, limit) => read((session) => listDueDirectives(session, types, limit)),
    directiveStatistics: (windowMs) => read((session) => directiveStatistics(session, windowMs)),
    releaseDirective: (begun) => write(['other'], (tx) => releaseDirective(tx, begun, 'unspent')),
    closeDirective: (closing) => write(['other'], (tx) => closeDirective(tx, closing)),
    cancelMany: (jobIds, step) => write(['other'], (tx) => cancelMany(tx, jobIds, step)),
    retryMany: (retries, step) => write(['enqueue'], (tx) => retryMany(tx, retries, step)),
    directive: (id) => find((session) => findDirective(session, id)),
    directives: (filter) => read((session) => listDirectives(session, filter)),
    switchedOff: () => read(listSwitchedOff),
    tokens: () => read(listTokens),
    tokenOrigins: () => read(listTokenOrigins),
    describeTakenName: (name) => read((session) => describeTakenName(session, name)),
    claimTokenNames: (names) => write(['other'], (tx) => claimTokenNames(tx, names)),
    noteTokenUse: (ids) => write(['other'], (tx) => noteTokenUse(tx, ids)),
    openKey: (key) => write(['other'], (tx) => openKey(tx, key)),
    closeKey: (key, answer) => write(['other'], (tx) => closeKey(tx, key, answer)),
  };
}

/** Which fault points lie around this commit. */
function verbOf({ work }: Pick<DirectRequest, 'work'>): VerbName {
  return work.kind.startsWith('package.') ? 'install' : 'other';
}
