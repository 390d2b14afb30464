import type { Store } from './dialect.ts';
import type { DirectiveVerbs } from './directives.ts';
import { cancelMany, retryMany } from './queries/directive-work.ts';
import { closeDirective, direct, findDirective, listDirectives } from './queries/directive.ts';
import { closeKey, openKey } from './queries/idempotency.ts';
import { listSwitchedOff, listTokens, noteTokenUse } from './queries/token.ts';

export function makeDirectiveVerbs({ read, write }: Store): DirectiveVerbs {
  return {
    direct: (request) => write(['other'], (tx) => direct(tx, request)),
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
