import { limits } from '../../base/limits.ts';
import type { Run, RunStatus } from './run.ts';
import type { Session } from '../../ledger/dialect.ts';
import type { ListPage } from '../../ledger/walk.ts';
import type { RunPageFilter } from './types.ts';
import { toRun } from './run-row.sql.ts';
import { isAsking } from './run.sql.ts';
import { rangeAfter, readWalk, type WalkStream } from '../../ledger/walk.ts';
import { Where } from '../../ledger/where.ts';

const openStatuses: ReadonlySet<RunStatus> = new Set(['queued', 'running']);

export async function readRunPage(session: Session, filter: RunPageFilter): Promise<ListPage<Run>> {
  const { pipeline, status, awaitingApproval, beforeSeq } = filter;
  const asks = (rest: Where): Where =>
    awaitingApproval === true
      ? rest.and(`status = 'running' and exists (select 1
          from ${session.dialect.table('run_steps')} s where s.run_id = w.id and ${isAsking})`)
      : rest;
  const ways: WalkStream[][] = [];
  const states = awaitingApproval === true ? (['running'] as const) : status;
  if (states !== undefined) {
    ways.push(
      states.map((state): WalkStream => {
        // The conditions of the two indexes, word for word.
        const isOpen = openStatuses.has(state);
        const rest = asks(among(new Where().equals({ pipeline }), status));
        return {
          index: isOpen ? 'pipeline_runs_open' : 'pipeline_runs_ended',
          key: ['status', state],
          where: new Where().and(isOpen ? 'completed_at is null' : 'completed_at is not null'),
          rest,
        };
      }),
    );
  }
  if (pipeline !== undefined) {
    const rest = asks(among(new Where(), status));
    const index = 'pipeline_runs_pipeline';
    ways.push([{ index, key: ['pipeline', pipeline], where: new Where(), rest }]);
  }
  if (ways.length === 0) ways.push([{ index: undefined, where: new Where(), rest: new Where() }]);
  return readWalk(session, {
    table: session.dialect.table('pipeline_runs'),
    columns: ['id', 'pipeline', 'status'],
    ways,
    order: 'newest',
    range: rangeAfter({}, beforeSeq, 'newest'),
    limit: filter.limit,
    visitMax: filter.visitMax ?? limits.listVisitMax,
    map: toRun,
  });
}

function among(rest: Where, status: readonly RunStatus[] | undefined): Where {
  if (status === undefined) return rest;
  return rest.and(`status in (${status.map(() => '?').join(', ')})`, ...status);
}
