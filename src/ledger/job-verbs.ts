import { limits } from '../base/limits.ts';
import type { Store } from './dialect.ts';
import type { Ledger } from './ledger.ts';
import { attemptsOf } from '../job/attempt.sql.ts';
import { listAttempts, readAttemptPage } from '../job/attempt-list.sql.ts';
import { cancel } from '../job/bulk.sql.ts';
import { countJobs, findJob, listJobs } from '../job/job.sql.ts';
import { countQueue, promote } from '../job/queue.sql.ts';
import { countJobPage, readJobPage } from '../job/job-page.sql.ts';
import { listFacts, readState } from '../job/plugin-state.sql.ts';

type JobVerb =
  | 'attemptPage'
  | 'attempts'
  | 'attemptsOf'
  | 'cancel'
  | 'countJobPage'
  | 'countJobs'
  | 'counts'
  | 'facts'
  | 'job'
  | 'jobPage'
  | 'jobs'
  | 'promote'
  | 'state';

/** The verbs for jobs and for what their plugins remember. */
export function makeJobVerbs({ find, read, write }: Store): Pick<Ledger, JobVerb> {
  return {
    cancel: (jobId) => write(['other'], (tx) => cancel(tx, jobId)),
    promote: () => write(['other'], promote),
    job: (id) => find((session) => findJob(session, id)),
    jobs: (filter) => read((session) => listJobs(session, filter)),
    countJobs: (filter) => read((session) => countJobs(session, filter)),
    jobPage: (filter) => read((session) => readJobPage(session, filter)),
    countJobPage: (filter) => read((session) => countJobPage(session, filter)),
    attempts: (jobIds) =>
      (jobIds.length > limits.keysHere ? read : find)((session) => attemptsOf(session, jobIds)),
    attemptsOf: (filter) => read((session) => listAttempts(session, filter)),
    attemptPage: (filter) => read((session) => readAttemptPage(session, filter)),
    facts: (plugin, limit, factType, beforeSeq) =>
      read((session) => listFacts(session, plugin, limit, factType, beforeSeq)),
    state: (plugin) => find((session) => readState(session, plugin)),
    counts: () => read(countQueue),
  };
}
