import type { DatabaseSync } from 'node:sqlite';
import type { Dialect, Session } from './dialect.ts';
import { int } from './queries/row.ts';

/** What the database itself can say about its file. */
export function checkSqliteFile(db: DatabaseSync): string[] {
  const rows = db.prepare('pragma integrity_check(20)').all();
  return rows
    .map((row) => String(Object.values(row)[0]))
    .filter((line) => line !== 'ok')
    .map((line) => `integrity: ${line}`);
}

/** Our own invariants: each query counts rows that must not exist. */
export async function checkLedger(session: Session): Promise<string[]> {
  const d = session.dialect;
  const jobs = d.table('job_queue');
  const log = d.table('job_log');
  const invariants: readonly (readonly [string, string])[] = [
    [
      'running jobs without a claim',
      `select count(*) as n from ${jobs} where status = 'running'
        and (claim_token is null or claimed_by is null or claim_expires_at is null)`,
    ],
    [
      'keys that run twice at once',
      `select count(*) as n from (select 1 as one from ${jobs}
        where status = 'running' and dedupe_key is not null
        group by dedupe_key, plugin, command having count(*) > 1) twice`,
    ],
    [
      'jobs that succeeded more than once',
      `select count(*) as n from (select job_id from ${log} where status = 'succeeded'
        group by job_id having count(*) > 1) twice`,
    ],
    [
      'succeeded jobs without their attempt',
      // An attempt is logged after its job is closed, so what is younger than the pruned has it.
      `select count(*) as n from ${jobs} j where j.status = 'succeeded'
        and j.completed_at > coalesce((select m.value from ${d.table('ledger_meta')} m
          where m.key = 'attempts_pruned_to'), '')
        and not exists (
          select 1 from ${log} l where l.job_id = j.id and l.status = 'succeeded')`,
    ],
    [
      'keys held by no open job',
      `select count(*) as n from ${d.table('job_dedupe')} k where k.blocks_until is null
        and not exists (select 1 from ${jobs} j where j.id = k.job_id and j.completed_at is null)`,
    ],
    [
      'signals of attempts that did not succeed',
      `select count(*) as n from ${d.table('signals')} s where s.event_index >= 0 and exists (
        select 1 from ${log} l where l.job_id = s.job_id and l.attempt = s.job_attempt
          and l.status <> 'succeeded')`,
    ],
  ];
  const found: string[] = [];
  for (const [name, sql] of [...invariants, ...intentInvariants(d)]) {
    const [row] = await session.run(sql);
    const count = int(row ?? {}, 'n');
    if (count > 0) found.push(`${count} ${name}`);
  }
  return found;
}

/** Of directives, of what they made, and of the keys under which they were asked for. */
function intentInvariants(d: Dialect): readonly (readonly [string, string])[] {
  const jobs = d.table('job_queue');
  return [
    [
      'directives whose end and error contradict each other',
      `select count(*) as n from ${d.table('directives')}
        where (status = 'failed') <> (error is not null)`,
    ],
    [
      'jobs that are retried twice at once',
      `select count(*) as n from (select retry_of from ${jobs} where retry_of is not null
        and completed_at is null group by retry_of having count(*) > 1) twice`,
    ],
    [
      'retries of jobs that have not ended',
      `select count(*) as n from ${jobs} r join ${jobs} j on j.id = r.retry_of
        where r.retry_of is not null and j.completed_at is null`,
    ],
    [
      'keys with half an answer',
      `select count(*) as n from ${d.table('idempotency_keys')}
        where (status is null) <> (answer is null)`,
    ],
  ];
}
