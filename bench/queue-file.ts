import { rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { payload } from './settings.ts';

const schema = `
create table job (
  seq integer primary key,
  id text not null,
  command text not null,
  status text not null,
  priority integer not null default 0,
  payload text not null,
  attempt integer not null default 0,
  run_at integer not null,
  started_at integer,
  completed_at integer,
  result text
);
create unique index job_id on job (id);
create index job_ready on job (priority, run_at, seq) where status = 'queued';
create index job_running on job (started_at) where status = 'running';
create table job_log (
  seq integer primary key,
  job_seq integer not null,
  status text not null,
  started_at integer,
  completed_at integer,
  result text
);`;

const fill = `
with recursive number (n) as (select 1 union all select n + 1 from number where n < ?)
insert into job (id, command, status, payload, run_at)
select printf('bench-%020d', n), 'handle', 'queued', ?, 1700000000000 + n from number`;

/** Creates a SQLite file with a plain queue of jobs, for the straightforward implementations. */
export async function makeQueueFile(path: string, jobs: number): Promise<void> {
  await removeQueueFile(path);
  const database = openQueueFile(path);
  database.exec(schema);
  database.prepare(fill).run(jobs, JSON.stringify(payload));
  database.exec('pragma wal_checkpoint(truncate)');
  database.close();
}

export function openQueueFile(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  database.exec('pragma journal_mode = wal; pragma synchronous = full; pragma busy_timeout = 5000');
  return database;
}

export async function removeQueueFile(path: string): Promise<void> {
  for (const suffix of ['', '-wal', '-shm']) await rm(path + suffix, { force: true });
}
