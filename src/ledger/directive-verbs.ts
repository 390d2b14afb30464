import type { Store } from './dialect.ts';
import type { DirectiveVerbs } from './directives.ts';
import { cancelMany, retryMany } from './queries/directive-work.ts';
import {
  approveDirective,
  cancelDirective,
  listDueDirectives,
  startDirective,
} from './queries/directive-wait.ts';
import { closeDirective, direct, findDirective, listDirectives } from './queries/directive.ts';
import { closeKey, openKey } from './queries/idempotency.ts';
import { directiveStatistics } from './queries/statistics.ts';
import { listSwitchedOff, listTokens, noteTokenUse } from './queries/token.ts';

export function makeDirectiveVerbs({ read, write }: Store): DirectiveVerbs {
  return {
    direct: (request) => write(['other'], (tx) => direct(tx, request)),
    startDirective: (start) => write(['other'], (tx) => startDirective(tx, start)),
    approveDirective: (decision) => write(['other'], (tx) => approveDirective(tx, decision)),
    cancelDirective: (decision) => write(['other'], (tx) => cancelDirective(tx, decision)),
    dueDirectives: (types, limit) => read((session) => listDueDirectives(session, types, limit)),
    directiveStatistics: (windowMs) => read((session) => directiveStatistics(session, windowMs)),
    closeDirective: (closing) => write(['other'], (tx) => closeDirective(tx, closing)),
    cancelMany: (jobIds) => write(['other'], (tx) => cancelMany(tx, jobIds)),
    retryMany: (retries) => write(['enqueue'], (tx) => retryMany(tx, retries)),
    directive: (id) => read((session) => findDirective(session, id)),
    directives: (filter) => read((session) => listDirectives(session, filter)),
    switchedOff: () => read(listSwitchedOff),
    tokens: () => read(listTokens),
    noteTokenUse: (ids) => write(['other'], (tx) => noteTokenUse(tx, ids)),
    openKey: (key) => write(['other'], (tx) => openKey(tx, key)),
    closeKey: (key, answer) => write(['other'], (tx) => closeKey(tx, key, answer)),
  };
}
