import { limits } from '../base/limits.ts';
import type { Directive } from './directive.ts';
import type { Session } from '../ledger/dialect.ts';
import type { DirectivePageFilter } from './types.ts';
import type { ListPage } from '../ledger/walk.ts';
import { toDirective } from './directive.sql.ts';
import { rangeAfter, readWalk, type WalkStream } from '../ledger/walk.ts';
import { Where } from '../ledger/where.ts';

export async function readDirectivePage(
  session: Session,
  filter: DirectivePageFilter,
): Promise<ListPage<Directive>> {
  const { status, awaitingApproval, beforeSeq } = filter;
  const equal = { target: filter.target, type: filter.type, actor: filter.actor };
  const left = (known: keyof typeof equal | 'status' | undefined): Where => {
    const rest = new Where().equals({
      ...equal,
      ...(known === undefined ? {} : { [known]: undefined }),
    });
    if (status !== undefined && known !== 'status') {
      rest.and(`status in (${status.map(() => '?').join(', ')})`, ...status);
    }
    const waits = `(status = 'requested' and awaiting_approval = 1)`;
    if (awaitingApproval !== undefined) rest.and(awaitingApproval ? waits : `not ${waits}`);
    return rest;
  };
  const ways: WalkStream[][] = (['target', 'type', 'actor'] as const)
    .filter((column) => equal[column] !== undefined)
    .map((column) => [
      {
        index: `directives_${column}`,
        key: [column, equal[column] ?? null],
        where: new Where(),
        rest: left(column),
      },
    ]);
  const states = awaitingApproval === true ? (['requested'] as const) : status;
  if (states !== undefined) {
    const isKnown = awaitingApproval !== true;
    ways.push(
      states.map((state) => ({
        index: 'directives_status',
        key: ['status', state],
        where: new Where(),
        rest: left(isKnown ? 'status' : undefined),
      })),
    );
  }
  if (ways.length === 0)
    ways.push([{ index: undefined, where: new Where(), rest: left(undefined) }]);
  return readWalk(session, {
    table: session.dialect.table('directives'),
    columns: ['target', 'type', 'actor', 'status', 'awaiting_approval'],
    ways,
    order: 'newest',
    range: rangeAfter({}, beforeSeq, 'newest'),
    limit: filter.limit,
    visitMax: filter.visitMax ?? limits.listVisitMax,
    map: toDirective,
  });
}
