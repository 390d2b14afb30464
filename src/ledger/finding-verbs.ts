import type { Store } from './dialect.ts';
import type { FindingReads } from '../insight/finding-reads.ts';
import {
  listDeadJobs,
  listHaltedRuns,
  listOpenQuestions,
  listSealKeyIds,
} from '../insight/finding.sql.ts';

export function makeFindingReads({ read }: Store): FindingReads {
  return {
    deadJobs: (request) => read((session) => listDeadJobs(session, request)),
    haltedRuns: (request) => read((session) => listHaltedRuns(session, request)),
    openQuestions: (limit) => read((session) => listOpenQuestions(session, limit)),
    sealKeyIds: () => read(listSealKeyIds),
  };
}
