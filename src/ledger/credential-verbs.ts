import type { CredentialVerbs } from '../access/types.ts';
import type { Store } from './dialect.ts';
import {
  countSeals,
  findCredential,
  findSealedPayloads,
  listCredentials,
  listSealedUnder,
  noteCredentialUse,
  reseal,
} from '../access/credential.sql.ts';

export function makeCredentialVerbs({ find, read, write }: Store): CredentialVerbs {
  return {
    credentials: () => read(listCredentials),
    credential: (name) => find((session) => findCredential(session, name)),
    noteCredentialUse: (names) => write(['other'], (tx) => noteCredentialUse(tx, names)),
    sealedPayloads: (ids) => read((session) => findSealedPayloads(session, ids)),
    sealCounts: () => read(countSeals),
    sealedUnder: (keyId, after, limit) =>
      read((session) => listSealedUnder(session, keyId, after, limit)),
    reseal: (changes) => write(['other'], (tx) => reseal(tx, changes)),
  };
}
