import { limits } from '../base/limits.ts';
import type { Signal } from './signal.ts';
import type { Session, Value } from '../ledger/dialect.ts';
import type { ListPage } from '../ledger/walk.ts';
import type { SignalPageFilter } from './types.ts';
import { int } from '../ledger/row.ts';
import { toSignal } from './signal.sql.ts';
import { rangeAfter, readWalk, type WalkStream } from '../ledger/walk.ts';
import { Where } from '../ledger/where.ts';

/** The columns that have an index in the order of numbers, the most telling first. */
const indexed = ['correlation_id', 'subject_id', 'type', 'source'] as const;

const indexOf = {
  correlation_id: 'signals_correlation',
  subject_id: 'signals_subject',
  type: 'signals_type',
  source: 'signals_source',
} as const;

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
  const streamBy = (column: (typeof indexed)[number] | undefined): WalkStream[] => {
    const { [column ?? '']: own, ...left } = equal;
    const rest = within(new Where().equals(left), filter);
    if (column === undefined) return [{ index: undefined, where: new Where(), rest }];
    // The condition of the index of subjects, word for word.
    const where = new Where();
    if (column === 'subject_id') where.and('subject_id is not null');
    return [{ index: indexOf[column], key: [column, own ?? null], where, rest }];
  };
  const columns = indexed.filter((column) => equal[column] !== undefined);
  const ways = columns.map(streamBy);
  if (columns.length === 0 && (filter.from ?? filter.to) !== undefined) {
    const time = await timeStream(session, filter, visitMax);
    if (time !== undefined) {
      const rest = new Where().equals(equal);
      ways.push([{ index: 'signals_occurred', where: time, rest, by: 'seq + 0' }]);
    }
  }
  if (ways.length === 0) ways.push(streamBy(undefined));
  return readWalk(session, {
    table: session.dialect.table('signals'),
    columns: [...Object.keys(equal), 'occurred_at'],
    ways,
    order,
    range: rangeAfter({}, beforeSeq, order),
    limit: filter.limit,
    visitMax,
    map: toSignal,
  });
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
