import { limits } from '../../base/limits.ts';
import type { Signal } from '../../signal/signal.ts';
import type { Session, Value } from '../dialect.ts';
import type { ListPage, SignalPageFilter } from '../list-pages.ts';
import { int } from './row.ts';
import { toSignal } from './signal.ts';
import { readWalk, type WalkStream } from './walk.ts';
import { Where } from './where.ts';

/** The columns that have an index in the order of numbers, the most telling first. */
const indexed = ['correlation_id', 'subject_id', 'type', 'source'] as const;

export async function readSignalPage(
  session: Session,
  filter: SignalPageFilter,
): Promise<ListPage<Signal>> {
  const { order = 'newest', beforeSeq, visitMax = limits.listVisitMax } = filter;
  const equal: Readonly<Record<string, Value | undefined>> = {
    type: filter.type,
    source: filter.source,
    subject_type: filter.subjectType,
    subject_id: filter.subjectId,
    correlation_id: filter.correlationId,
    visibility: filter.visibility,
  };
  const range = (where: Where): Where =>
    beforeSeq === undefined
      ? where
      : where.and(order === 'oldest' ? 'seq > ?' : 'seq < ?', beforeSeq);
  const streamBy = (column: string | undefined): WalkStream[] => {
    const { [column ?? '']: own, ...left } = equal;
    const where = column === undefined ? new Where() : whereIn(column, own);
    return [{ where: range(where), rest: within(new Where().equals(left), filter) }];
  };
  const columns = indexed.filter((column) => equal[column] !== undefined);
  const ways = columns.map(streamBy);
  if (columns.length === 0 && (filter.from ?? filter.to) !== undefined) {
    const time = await timeStream(session, filter, visitMax);
    if (time !== undefined) {
      ways.push([{ where: range(time), rest: new Where().equals(equal), by: 'seq + 0' }]);
    }
  }
  if (ways.length === 0) ways.push(streamBy(undefined));
  return readWalk(session, {
    table: session.dialect.table('signals'),
    columns: `${Object.keys(equal).join(', ')}, occurred_at`,
    ways,
    order,
    limit: filter.limit,
    visitMax,
    map: toSignal,
  });
}

function whereIn(column: string, value: Value | undefined): Where {
  const where = new Where().equals({ [column]: value });
  // The condition of the index, word for word.
  return column === 'subject_id' ? where.and('subject_id is not null') : where;
}

function within(where: Where, { from, to }: SignalPageFilter): Where {
  if (from !== undefined) where.and('occurred_at >= ?', from);
  if (to !== undefined) where.and('occurred_at < ?', to);
  return where;
}

/** A time with few signals is sorted; one with many is walked through by numbers instead. */
async function timeStream(
  session: Session,
  filter: SignalPageFilter,
  visitMax: number,
): Promise<Where | undefined> {
  const time = within(new Where(), filter);
  const [row = {}] = await session.run(
    `select count(*) as n from (select 1 as one from ${session.dialect.table('signals')}
      where ${time.text} order by occurred_at limit ?) t`,
    [...time.values, visitMax + 1],
  );
  return int(row, 'n') <= visitMax ? time : undefined;
}
