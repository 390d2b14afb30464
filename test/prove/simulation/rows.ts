/**
 * Sees every row that changes, from below the ledger: the checker must not have to believe what is
 * checked. What a transaction did is told when it is committed.
 */
import type { DatabaseSync } from 'node:sqlite';

export const watched = {
  job_queue: [
    'seq',
    'id',
    'plugin',
    'command',
    'status',
    'attempt',
    'max_attempts',
    'retry_count',
    'crash_count',
    'claim_token',
    'claimed_by',
    'claim_expires_at',
    'cancel_requested_at',
    'dependency_key',
    'dedupe_key',
    'dedupe_ttl_ms',
    'schedule_id',
    'schedule_slot',
    'source_event_id',
    'retry_of',
    'run_id',
    'step_id',
    'payload',
    'next_retry_at',
    'completed_at',
  ],
  job_log: ['job_id', 'attempt', 'status', 'cause', 'claim_token', 'completed_at'],
  signals: ['id', 'type', 'job_id', 'job_attempt', 'event_index', 'inserted_at'],
  plugin_state: ['plugin_name', 'state'],
  pipeline_runs: ['id', 'pipeline', 'status', 'completed_at'],
  run_steps: ['run_id', 'id', 'status'],
  directives: ['id', 'status'],
  processes: ['id', 'last_heartbeat_at'],
} as const;

export type Watched = keyof typeof watched;
export type Row = Readonly<Record<string, string | number | null>>;

export interface Change {
  readonly table: Watched;
  readonly before: Row | undefined;
  readonly after: Row | undefined;
}

export class Changes {
  #seen: Change[] = [];

  constructor(db: DatabaseSync) {
    db.function('observe', (table, before, after) => {
      this.#seen.push({
        table: table as Watched,
        before: toRow(before),
        after: toRow(after),
      });
      return null;
    });
    for (const [table, columns] of Object.entries(watched)) {
      const old = toJson('old', columns);
      const now = toJson('new', columns);
      for (const [moment, what] of [
        ['insert', `null, ${now}`],
        ['update', `${old}, ${now}`],
        ['delete', `${old}, null`],
      ]) {
        db.exec(`create temp trigger seen_${moment}_${table} after ${moment} on main.${table}
          begin select observe('${table}', ${what}); end`);
      }
    }
  }

  /** How many there are so far; what came after them can be taken back. */
  get count(): number {
    return this.#seen.length;
  }

  undo(count: number): void {
    this.#seen.length = count;
  }

  take(): readonly Change[] {
    const seen = this.#seen;
    this.#seen = [];
    return seen;
  }
}

function toJson(row: 'old' | 'new', columns: readonly string[]): string {
  return `json_object(${columns.map((column) => `'${column}', ${row}.${column}`).join(', ')})`;
}

function toRow(json: unknown): Row | undefined {
  return typeof json === 'string' ? (JSON.parse(json) as Row) : undefined;
}
