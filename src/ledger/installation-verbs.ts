import type { Store } from './dialect.ts';
import type { InstallationVerbs } from '../package/types.ts';
import {
  installationsVersion,
  listInstallations,
  listProvenance,
  noteInstallation,
} from '../package/installation.sql.ts';

export function makeInstallationVerbs({ read, write }: Store): InstallationVerbs {
  return {
    installations: (filter) => read((session) => listInstallations(session, filter)),
    installationsVersion: () => read(installationsVersion),
    noteInstallation: (id, error) => write(['other'], (tx) => noteInstallation(tx, id, error)),
    provenance: (installationId) => read((session) => listProvenance(session, installationId)),
  };
}
