import { limits } from '../../base/limits.ts';
import type { Run, RunStatus } from '../../pipeline/run.ts';
import type { Session } from '../dialect.ts';
import type { ListPage, RunPageFilter } from '../list-pages.ts';
import { toRun } from './run-row.ts';
import { isAsking } from './run.ts';
import { readWalk, type WalkStream } from './walk.ts';
import { Where } from './where.ts';

const openStatuses: ReadonlySet<RunStatus> = new Set(['queued', 'running']);

export async function readRunPage(session: Session, filter: RunPageFilter): Promise<ListPage<Run>> {
  const { pipeline, status, awaitingApproval, beforeSeq } = filter;
  const range = (where: Where): Where =>
    beforeSeq === undefined ? where : where.and('seq < ?', beforeSeq);
  const asks = (rest: Where): Where =>
    awaitingApproval === true
      ? rest.and(`status = 'running' and exists (select 1
          from ${session.dialect.table('run_steps')} s where s.run_id = w.id and ${isAsking})`)
      : rest;
  const ways: WalkStream[][] = [];
  const states = awaitingApproval === true ? (['running'] as const) : status;
  if (states !== undefined) {
    ways.push(
      states.map((state) => {
        // The conditions of the two indexes, word for word.
        const isOpen = openStatuses.has(state)
          ? 'completed_at is null'
          : 'completed_at is not null';
        const where = new Where().equals({ status: state }).and(isOpen);
        return { where: range(where), rest: asks(among(new Where().equals({ pipeline }), status)) };
      }),
    );
  }
  if (pipeline !== undefined) {
    const rest = asks(among(new Where(), status));
    ways.push([{ where: range(new Where().equals({ pipeline })), rest }]);
  }
  if (ways.length === 0) ways.push([{ where: range(new Where()), rest: new Where() }]);
  return readWalk(session, {
    table: session.dialect.table('pipeline_runs'),
    columns: 'id, pipeline, status',
    ways,
    order: 'newest',
    limit: filter.limit,
    visitMax: filter.visitMax ?? limits.listVisitMax,
    map: toRun,
  });
}

function among(rest: Where, status: readonly RunStatus[] | undefined): Where {
  if (status === undefined) return rest;
  return rest.and(`status in (${status.map(() => '?').join(', ')})`, ...status);
}
