import { limits } from '../../base/limits.ts';
import type { Session } from '../dialect.ts';
import type { DeliveryPageFilter, ListPage } from '../list-pages.ts';
import type { DeliveryRow } from '../webhooks.ts';
import { toDelivery } from './delivery.ts';
import { readWalk, type WalkStream } from './walk.ts';
import { Where } from './where.ts';

export async function readDeliveryPage(
  session: Session,
  filter: DeliveryPageFilter,
): Promise<ListPage<DeliveryRow>> {
  const { hookId, verdict, beforeSeq } = filter;
  const range = (where: Where): Where =>
    beforeSeq === undefined ? where : where.and('seq < ?', beforeSeq);
  const ofHook = (): Where => new Where().equals({ hook_id: hookId });
  const ways: WalkStream[][] = [];
  if (verdict !== undefined && verdict !== 'accepted') {
    ways.push([{ where: range(new Where().and(isVerdict(verdict))), rest: ofHook() }]);
  }
  if (hookId !== undefined) ways.push([{ where: range(ofHook()), rest: withVerdict(verdict) }]);
  if (ways.length === 0) ways.push([{ where: range(new Where()), rest: withVerdict(verdict) }]);
  return readWalk(session, {
    table: session.dialect.table('webhook_deliveries'),
    columns: 'hook_id, verdict, reason',
    ways,
    order: 'newest',
    limit: filter.limit,
    visitMax: filter.visitMax ?? limits.listVisitMax,
    map: toDelivery,
  });
}

function withVerdict(verdict: DeliveryRow['verdict'] | undefined): Where {
  return verdict === undefined ? new Where() : new Where().and(isVerdict(verdict));
}

/** The verdict and the condition of its index, written out. A skipped delivery is stored as accepted. */
function isVerdict(verdict: DeliveryRow['verdict']): string {
  if (verdict === 'skipped') return `verdict = 'accepted' and reason is not null`;
  if (verdict === 'accepted') return `verdict = 'accepted' and reason is null`;
  return `verdict = '${verdict}' and verdict <> 'accepted'`;
}
