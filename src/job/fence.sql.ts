import type { Row, RowsWriter } from '../ledger/dialect.ts';
import type { Closing } from '../ledger/commit.ts';

/**
 * The guard of every close of an attempt. It holds only for the claim, and for the very attempt,
 * that the closing speaks of; once somebody asked for the job's end, only for a success or that end.
 * The status is an expression, because SQLite would plan the statement again for every value of a
 * parameter that it can compare with the condition of an index.
 */
export function fence(r: RowsWriter, job: string): string {
  return `${job}.seq ${r.isKey()} and ${job}.status = case when ${r('token')} is null then 'queued' else 'running' end
    and ${job}.claim_token is not distinct from ${r('token')} and ${job}.attempt = ${r('attempt')}
    and (${job}.cancel_requested_at is null or ${r('status')} in ('succeeded', 'cancelled'))`;
}

export const fenceColumns = {
  seq: 'int',
  token: 'text',
  attempt: 'int',
  status: 'text',
} as const;

export function toFenceRow({ job, claimToken, ending }: Closing): Row {
  return {
    seq: job.seq,
    token: claimToken,
    attempt: job.attempt,
    status: ending.status,
  };
}
