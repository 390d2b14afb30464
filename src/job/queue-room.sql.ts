import { DuctileError } from '../base/errors.ts';
import { together, type Session, type Transaction } from '../ledger/dialect.ts';
import type { QueueLimit } from './types.ts';
import { int } from '../ledger/row.ts';
import { isReady } from './waiting.sql.ts';

/**
 * Throws TENANT_LIMIT when so many jobs more would not fit. It counts no further than the limit, and
 * only one transaction at a time does so on any host; the others wait for its commit.
 */
export async function requireQueueRoom(
  tx: Transaction,
  { most, tenant }: QueueLimit,
  jobs: number,
): Promise<void> {
  // An earlier try found room and may be committed: its own jobs must not count against it.
  if (jobs === 0 || tx.again) return;
  const { lockQueue } = tx.dialect;
  // A statement of its own: the count must take its snapshot after the lock is held.
  const [, queued] = await together(
    lockQueue === undefined ? Promise.resolve([]) : tx.run(lockQueue),
    countQueued(tx, most),
  );
  if (queued + jobs <= most) return;
  const limit = 'queue_length';
  const message = `the tenant ${tenant} has reached its limit ${limit}, which is ${most}`;
  throw new DuctileError('TENANT_LIMIT', message, { place: limit, details: { limit, most } });
}

/** Each half has an index of its own. */
async function countQueued(session: Session, upTo: number): Promise<number> {
  const { dialect: d } = session;
  const [row = {}] = await session.run(
    `select (select count(*) from (select 1 as one from ${d.table('job_queue')}
        where ${isReady} limit ?) r) + (select count(*) from (select 1 as one
        from ${d.table('job_queue')} where status = 'queued' and next_retry_at is not null
        limit ?) l) as queued`,
    [upTo, upTo],
  );
  return int(row, 'queued');
}
