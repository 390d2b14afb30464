import type { Dialect } from './dialect.ts';
import { isSweeping } from '../pipeline/run/sweep.sql.ts';

/** Of runs and their branches: each query counts rows that must not exist. */
export function runInvariants(d: Dialect): readonly (readonly [name: string, sql: string])[] {
  const runs = d.table('pipeline_runs');
  const branches = d.table('run_branches');
  const isOfBlock = `c.id > b.id || '.' || b.moves || '.' and c.id < b.id || '.' || b.moves || '.~'
    and c.parent_id = b.id`;
  return [
    [
      'running branches without an open job',
      `select count(*) as n from ${branches} b where b.status = 'running' and not exists (
        select 1 from ${d.table('job_queue')} j where j.id = b.job_id and j.completed_at is null)`,
    ],
    [
      'blocks that count other branches than they have',
      `select count(*) as n from ${branches} b where b.block is not null and b.completed_at is null
        and (select r.completed_at from ${runs} r where r.id = b.run_id) is null
        and coalesce(b.outcome, '') not like '{"kind":"failing"%'
        and (b.pending <> b.width - (select count(*) from ${branches} c where ${isOfBlock}
            and c.completed_at is not null)
          or b.cursor <> (select count(*) from ${branches} c where ${isOfBlock}))`,
    ],
    [
      'blocks that have ended and were not joined',
      `select count(*) as n from ${branches} b where b.block is not null and b.status = 'waiting'
        and b.pending = 0`,
    ],
    [
      'ended runs with open branches',
      // Unless its root is still there to end them.
      `select count(*) as n from ${branches} b where b.completed_at is null and exists (
        select 1 from ${runs} r where r.id = b.run_id and r.completed_at is not null)
        and not exists (select 1 from ${branches} s where s.id = b.run_id and ${isSweeping('s')})`,
    ],
    [
      'runs under way without an open branch',
      `select count(*) as n from ${runs} r where r.completed_at is null and r.status = 'running'
        and not exists (select 1 from ${branches} b where b.id = r.id and b.completed_at is null)`,
    ],
    [
      'branches to be moved on that nobody would find',
      `select count(*) as n from ${branches} where status = 'advancing' and due_at is null`,
    ],
  ];
}
