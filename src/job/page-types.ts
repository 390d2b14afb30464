import type { Timestamp } from '../base/clock.ts';
import type { Job, JobStatus } from './job.ts';

/** Lists of jobs for people, whose cost doesn't depend on how many jobs there are. */
export interface JobPageVerbs {
  /** Reads a page of jobs; it looks at a bounded number of rows, whatever the filter. */
  jobPage(filter: JobPageFilter): Promise<JobPage>;
  /** Counts the jobs of all pages, and looks at a bounded number of rows for it. */
  countJobPage(filter: JobPageFilter): Promise<BoundedCount>;
}

export interface JobFilter {
  readonly plugin?: string;
  readonly command?: string;
  readonly status?: readonly JobStatus[];
  /** Only ids that begin so. */
  readonly idPrefix?: string;
  readonly rootJobId?: string;
  readonly parentJobId?: string;
  /** Only jobs that this signal caused. */
  readonly sourceEventId?: string;
  /** Only jobs that follow from one of these, or do its work again. */
  readonly causedBy?: readonly string[];
  /** Only jobs that repeat the work of one of these. */
  readonly retryOf?: readonly string[];
  readonly submittedBy?: string;
  /** Created not before, and before. */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  /** Created at least so long ago, by the database's clock. */
  readonly olderThanMs?: number;
  /** Part of its last error, whatever the case. */
  readonly query?: string;
  /** No other job is a retry of it. */
  readonly notRetried?: boolean;
  readonly upToSeq?: number;
  /** Keyset page: rows with a smaller seq than this. */
  readonly beforeSeq?: number;
  readonly order?: 'newest' | 'oldest';
  readonly limit: number;
}

/** The filters of job lists. */
export type JobPageFilter = Pick<
  JobFilter,
  | 'plugin'
  | 'command'
  | 'status'
  | 'submittedBy'
  | 'from'
  | 'to'
  | 'query'
  | 'beforeSeq'
  | 'order'
  | 'limit'
> & {
  /** Rows that it may look at, unless that is the usual number. */
  readonly visitMax?: number;
};

export interface JobPage {
  readonly jobs: readonly Job[];
  /** `beforeSeq` of the next page; undefined on the last page. Earlier pages may be short. */
  readonly next: number | undefined;
}

/** How many rows there are, or at least are. */
export interface BoundedCount {
  readonly count: number;
  readonly isExact: boolean;
}
