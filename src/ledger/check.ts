import { DuctileError, messageOf } from '../base/errors.ts';
import { toCanonicalJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Dialect, Session } from './dialect.ts';
import { writeAttemptId } from '../job/attempt.sql.ts';
import { int, text } from './row.ts';
import type { CheckSession } from './sqlite/read-thread.ts';
import { isCancelling } from '../pipeline/run/change.sql.ts';

/** Runs SQLite's own check of its file. */
export async function checkSqliteFile({ run }: CheckSession): Promise<string[]> {
  return toIntegrityProblems(await run('pragma integrity_check(20)'));
}

/** Runs SQLite's quick check if the file is small enough. */
export async function quickCheckSqliteFile({ run }: CheckSession): Promise<string[]> {
  const [size = {}] = await run(
    'select page_count * page_size as bytes from pragma_page_count, pragma_page_size',
  );
  if (int(size, 'bytes') > limits.quickCheckBytesMax) return [];
  return toIntegrityProblems(await run('pragma quick_check(5)'));
}

function toIntegrityProblems(rows: readonly object[]): string[] {
  return rows
    .map((row) => String(Object.values(row)[0]))
    .filter((line) => line !== 'ok')
    .map((line) => `${FILE_DAMAGE}${line}`);
}

const FILE_DAMAGE = 'integrity: ';

/** Runs checks in turn. Damage that stops a check becomes one more problem. */
export async function collectProblems(
  session: CheckSession,
  ...checks: readonly ((session: CheckSession) => Promise<string[]>)[]
): Promise<string[]> {
  const found: string[] = [];
  try {
    for (const check of checks) found.push(...(await check(session)));
  } catch (error) {
    if (!(error instanceof DuctileError) || error.code !== 'LEDGER_CORRUPT') throw error;
    found.push(`${FILE_DAMAGE}${error.message}`);
  }
  return found;
}

/** Checks whether a problem is damage of the file itself, and not a contradiction between rows. */
export function isFileDamage(problem: string): boolean {
  return problem.startsWith(FILE_DAMAGE);
}

export interface IndexCheck {
  readonly problems: readonly string[];
  /** Why the check did not run; null if it ran. */
  readonly skipped: string | null;
}

/** Compares every index of a file with its table. That takes too long for a check at startup. */
export async function checkSqliteIndexes(session: CheckSession): Promise<IndexCheck> {
  return { problems: await checkSqliteFile(session), skipped: null };
}

/** Compares every index of a PostgreSQL schema with its table, if `amcheck` is installed. */
export async function checkPostgresIndexes(session: Session, schema: string): Promise<IndexCheck> {
  const [extension] = await session.run(
    `select n.nspname as name from pg_catalog.pg_extension e
      join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'amcheck'`,
  );
  if (extension === undefined) {
    return { problems: [], skipped: 'the extension amcheck is not installed in this database' };
  }
  const indexes = await session.run(
    `select c.oid::bigint as oid, c.relname as name from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      join pg_catalog.pg_am a on a.oid = c.relam
      where n.nspname = ? and c.relkind = 'i' and a.amname = 'btree' order by c.relname`,
    [schema],
  );
  const problems: string[] = [];
  for (const index of indexes) {
    try {
      const check = `"${text(extension, 'name')}".bt_index_check(${int(index, 'oid')}::oid, true)`;
      await session.run(`select ${check}::text as checked`);
    } catch (error) {
      const message = messageOf(error);
      if (/permission denied/.test(message)) return { problems, skipped: message };
      problems.push(`${text(index, 'name')}: ${message}`);
    }
  }
  return { problems, skipped: null };
}

/** Checks the invariants of the record: each query counts rows that must not exist. */
export async function checkLedger(session: CheckSession): Promise<string[]> {
  const d = session.dialect;
  return await count(session, [
    ...runningInvariants(d),
    ...jobInvariants(d),
    ...directiveInvariants(d),
    ...installationInvariants(d),
    ...runInvariants(d),
  ]);
}

/** Checks the invariants of running jobs, of which there are few. */
export async function quickCheckLedger(session: CheckSession): Promise<string[]> {
  return await count(session, runningInvariants(session.dialect));
}

type Invariant = readonly [name: string, sql: string];

async function count(session: CheckSession, invariants: readonly Invariant[]): Promise<string[]> {
  const found: string[] = [];
  for (const [name, sql] of invariants) {
    const [row] = await session.run(sql);
    const rows = int(row ?? {}, 'n');
    if (rows > 0) found.push(`${rows} ${name}`);
  }
  return found;
}

function runningInvariants(d: Dialect): readonly Invariant[] {
  const jobs = d.table('job_queue');
  return [
    [
      'running jobs without a claim',
      `select count(*) as n from ${jobs} where status = 'running'
        and (claim_token is null or claimed_by is null or claim_expires_at is null)`,
    ],
    [
      'dedupe keys with several running jobs',
      `select count(*) as n from (select 1 as one from ${jobs}
        where status = 'running' and dedupe_key is not null
        group by dedupe_key, plugin, command having count(*) > 1) twice`,
    ],
    [
      'dependency keys with several running jobs',
      `select count(*) as n from (select 1 as one from ${jobs}
        where status = 'running' and dependency_key is not null
        group by dependency_key having count(*) > 1) twice`,
    ],
  ];
}

function jobInvariants(d: Dialect): readonly Invariant[] {
  const jobs = d.table('job_queue');
  const log = d.table('job_log');
  return [
    [
      'jobs that succeeded more than once',
      `select count(*) as n from (select job_id from ${log} where status = 'succeeded'
        group by job_id having count(*) > 1) twice`,
    ],
    [
      'succeeded jobs without their attempt',
      // An attempt is logged after its job is closed. So a job that was closed after the end of the
      // pruned attempts still has its attempt.
      `select count(*) as n from ${jobs} j where j.status = 'succeeded'
        and j.completed_at > coalesce((select m.value from ${d.table('ledger_meta')} m
          where m.key = 'attempts_pruned_to'), '')
        and not exists (
          select 1 from ${log} l where l.id = ${writeAttemptId('j.id', 'j.attempt')} and l.status = 'succeeded')`,
    ],
    [
      'dedupe keys held by no open job',
      `select count(*) as n from ${d.table('job_dedupe')} k where k.blocks_until is null
        and not exists (select 1 from ${jobs} j where j.id = k.job_id and j.completed_at is null)`,
    ],
    [
      'signals of attempts that did not succeed',
      // Finds the attempt by its key: a condition on the status alone would scan the index of failed
      // attempts for each signal.
      `select count(*) as n from ${d.table('signals')} s where s.event_index >= 0 and exists (
        select 1 from ${log} l where l.id = ${writeAttemptId('s.job_id', 's.job_attempt')}
          and coalesce(l.status, '') <> 'succeeded')`,
    ],
    [
      'sealed payloads without their signals',
      `select count(*) as n from ${d.table('sealed_payloads')} p where not exists (
        select 1 from ${d.table('signals')} s where s.id = p.signal_id)`,
    ],
  ];
}

/** The invariants of directives, of the jobs they retried, and of idempotency keys. */
function directiveInvariants(d: Dialect): readonly Invariant[] {
  const jobs = d.table('job_queue');
  return [
    [
      'directives whose status and error contradict each other',
      `select count(*) as n from ${d.table('directives')}
        where (status = 'failed') <> (error_message is not null)`,
    ],
    [
      'directives that started although they wait for approval',
      `select count(*) as n from ${d.table('directives')}
        where awaiting_approval <> 0 and (attempt > 0 or status not in ('requested', 'cancelled'))`,
    ],
    [
      'jobs with several open retries',
      `select count(*) as n from (select retry_of from ${jobs} where retry_of is not null
        and completed_at is null group by retry_of having count(*) > 1) twice`,
    ],
    [
      'retries of jobs that have not ended',
      `select count(*) as n from ${jobs} r join ${jobs} j on j.id = r.retry_of
        where r.retry_of is not null and j.completed_at is null`,
    ],
    [
      'idempotency keys with an incomplete response',
      `select count(*) as n from ${d.table('idempotency_keys')}
        where (status is null) <> (answer is null)`,
    ],
  ];
}

/** The invariants of packages. A provision without its installation would block its name forever. */
function installationInvariants(d: Dialect): readonly Invariant[] {
  const installations = d.table('package_installations');
  const provisions = d.table('installation_provisions');
  return [
    [
      'provisions of packages that are not installed',
      `select count(*) as n from ${provisions} p where p.removed_at is null
        and coalesce((select i.status from ${installations} i where i.id = p.installation_id),
          'uninstalled') = 'uninstalled'`,
    ],
    [
      'missing webhooks of installations',
      `select count(*) as n from ${provisions} p where p.removed_at is null and p.kind = 'webhook'
        and (select count(*) from ${d.table('webhooks')} w where w.id = p.name) = 0`,
    ],
    [
      'installations whose status and error contradict each other',
      `select count(*) as n from ${installations}
        where (status = 'failed') <> (last_error is not null)`,
    ],
    [
      'installations that should provide something but own nothing',
      `select count(*) as n from ${installations} i where i.status <> 'uninstalled'
        and i.provisioned not in (${nothingProvided}) and (select count(*) from ${provisions} p
          where p.installation_id = i.id and p.removed_at is null) = 0`,
    ],
  ];
}

/** The stored form of an installation that provides nothing. */
const nothing = { plugins: {}, routes: [], pipelines: [], handlers: [] };
/** Installations from before webhooks have no list of them. */
const nothingProvided = [nothing, { ...nothing, webhooks: [] }]
  .map((provides) => `'${toCanonicalJson(provides)}'`)
  .join(', ');

function runInvariants(d: Dialect): readonly Invariant[] {
  const runs = d.table('pipeline_runs');
  const branches = d.table('run_branches');
  const isInBlock = `c.id > b.id || '.' || b.moves || '.' and c.id < b.id || '.' || b.moves || '.~'
    and c.parent_id = b.id`;
  return [
    [
      'running branches without an open job',
      `select count(*) as n from ${branches} b where b.status = 'running' and not exists (
        select 1 from ${d.table('job_queue')} j where j.id = b.job_id and j.completed_at is null)`,
    ],
    [
      'blocks with a wrong count of branches',
      `select count(*) as n from ${branches} b where b.block is not null and b.completed_at is null
        and (select r.completed_at from ${runs} r where r.id = b.run_id) is null
        and coalesce(b.outcome, '') not like '{"kind":"failing"%'
        and (b.pending <> b.width - (select count(*) from ${branches} c where ${isInBlock}
            and c.completed_at is not null)
          or b.cursor <> (select count(*) from ${branches} c where ${isInBlock}))`,
    ],
    [
      'blocks that have ended and were not joined',
      `select count(*) as n from ${branches} b where b.block is not null and b.status = 'waiting'
        and b.pending = 0`,
    ],
    [
      'ended runs with open branches',
      // A cancelled run may have open branches while its root branch still ends them.
      `select count(*) as n from ${branches} b where b.completed_at is null and exists (
        select 1 from ${runs} r where r.id = b.run_id and r.completed_at is not null)
        and not exists (select 1 from ${branches} s where s.id = b.run_id and ${isCancelling('s')})`,
    ],
    [
      'running runs without an open branch',
      `select count(*) as n from ${runs} r where r.completed_at is null and r.status = 'running'
        and not exists (select 1 from ${branches} b where b.id = r.id and b.completed_at is null)`,
    ],
    [
      'advancing branches without a due time',
      `select count(*) as n from ${branches} where status = 'advancing' and due_at is null`,
    ],
  ];
}
