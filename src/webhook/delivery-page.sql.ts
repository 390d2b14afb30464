import { limits } from '../base/limits.ts';
import type { Session } from '../ledger/dialect.ts';
import type { DeliveryPageFilter, DeliveryRow } from './types.ts';
import type { ListPage } from '../ledger/walk.ts';
import { toDelivery } from './delivery.sql.ts';
import { rangeAfter, readWalk, type WalkStream } from '../ledger/walk.ts';
import { Where } from '../ledger/where.ts';

export async function readDeliveryPage(
  session: Session,
  filter: DeliveryPageFilter,
): Promise<ListPage<DeliveryRow>> {
  const { hookId, verdict, beforeSeq } = filter;
  const ways: WalkStream[][] = [];
  const hook = hookId === undefined ? [] : [hookId];
  if (verdict === 'skipped') {
    const where = new Where().and(isVerdict(verdict));
    const rest = new Where().equals({ hook_id: hookId });
    ways.push([{ index: 'webhook_deliveries_skipped', where, rest }]);
  } else if (verdict === 'refused' || verdict === 'failed') {
    const where = new Where().and(`verdict <> 'accepted'`);
    const rest = new Where().equals({ hook_id: hookId });
    ways.push([{ index: 'webhook_deliveries_untaken', key: ['verdict', verdict], where, rest }]);
  }
  for (const id of hook) {
    const rest = withVerdict(verdict);
    ways.push([
      { index: 'webhook_deliveries_hook', key: ['hook_id', id], where: new Where(), rest },
    ]);
  }
  if (ways.length === 0) {
    ways.push([{ index: undefined, where: new Where(), rest: withVerdict(verdict) }]);
  }
  return readWalk(session, {
    table: session.dialect.table('webhook_deliveries'),
    columns: ['hook_id', 'verdict', 'reason'],
    ways,
    order: 'newest',
    range: rangeAfter({}, beforeSeq, 'newest'),
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
