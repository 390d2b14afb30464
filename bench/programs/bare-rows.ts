/**
 * Writes the rows of a delivery with three statements, in commits that are synced before the response:
 * the minimum for any engine.
 */
import { noRules } from '../../src/ledger/rules.ts';
import { fdatasyncSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { limits } from '../../src/base/limits.ts';
import { openLedger } from '../../src/ledger/open.ts';

/** Delivery with its signal and the job that the signal causes. */
export interface BareDelivery {
  readonly id: string;
  readonly headers: string;
  readonly bodyBytes: number;
  readonly signalId: string;
  readonly data: string;
  readonly jobId: string;
  readonly plugin: string;
  readonly payload: string;
}

export interface BareRows {
  readonly db: DatabaseSync;
  /** Inserts the rows; requires a transaction. */
  insert(delivery: BareDelivery): void;
  /** Runs a transaction, which is synced when this returns. */
  commit<T>(work: () => T): T;
}

export async function openBareRows(path: string): Promise<BareRows> {
  await (await openLedger({ kind: 'sqlite', path }, noRules)).close();
  const db = new DatabaseSync(path);
  db.exec('pragma journal_mode = wal; pragma synchronous = normal');
  db.exec(`pragma wal_autocheckpoint = ${limits.journalPages}`);
  const journal = openSync(`${path}-wal`, 'r+');
  const begin = db.prepare('begin immediate');
  const commit = db.prepare('commit');
  return {
    db,
    insert: prepareInsert(db),
    commit(work) {
      begin.run();
      const value = work();
      commit.run();
      fdatasyncSync(journal);
      return value;
    },
  };
}

function prepareInsert(db: DatabaseSync): BareRows['insert'] {
  const insertDelivery = db.prepare(`insert into webhook_deliveries
    (id, hook_id, verdict, source, headers, body_bytes, signal_id, received_at)
    values (?, 'bench', 'accepted', '127.0.0.1', ?, ?, ?, ?) on conflict do nothing`);
  const insertSignal = db.prepare(`insert into signals (id, type, source, subject_type, subject_id,
      data, metadata, hops, correlation_id, visibility, source_event_id, occurred_at, inserted_at)
    values (?1, 'webhook.received', 'webhook:bench', 'webhook', 'bench', ?2, '{"schema_version":1}', 1,
      ?1, 'internal', ?3, ?4, ?4) on conflict do nothing`);
  const insertJob = db.prepare(`insert into job_queue (id, plugin, command, payload, status,
      max_attempts, submitted_by, actor, source_event_id, root_job_id, idempotency_key, hops,
      runtime_caused, created_at, ready_at)
    values (?1, ?2, 'handle', ?3, 'queued', 4, 'webhook', 'webhook:bench', ?4, ?1, ?4 || ':target', 1, 0,
      ?5, ?5) on conflict (id) do nothing`);
  return ({ id, headers, bodyBytes, signalId, data, jobId, plugin, payload }) => {
    const now = new Date().toISOString();
    insertDelivery.run(id, headers, bodyBytes, signalId, now);
    insertSignal.run(signalId, data, id, now);
    insertJob.run(jobId, plugin, payload, signalId, now);
  };
}
