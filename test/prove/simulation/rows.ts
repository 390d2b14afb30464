/**
 * Observes every changed row below the ledger, so that the checker doesn't depend on the code that
 * it checks. The changes of a transaction are reported when it commits.
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

export type WatchedTable = keyof typeof watched;
export type Row = Readonly<Record<string, Cell>>;

export interface Change {
  readonly table: WatchedTable;
  readonly before: Row | undefined;
  readonly after: Row | undefined;
}

type Cell = string | number | null;

export class Changes {
  #seen: Change[] = [];

  constructor(db: DatabaseSync) {
    // Values instead of JSON, because row changes are by far the most frequent event.
    db.function('observe', { varargs: true }, (table, moment, ...cells) => {
      const columns: readonly string[] = watched[table as WatchedTable];
      const first = toRow(columns, cells as Cell[], 0);
      const second = moment === 'update' ? toRow(columns, cells as Cell[], columns.length) : first;
      this.#seen.push({
        table: table as WatchedTable,
        before: moment === 'insert' ? undefined : first,
        after: moment === 'delete' ? undefined : second,
      });
      return null;
    });
    for (const [table, columns] of Object.entries(watched)) {
      const old = columns.map((column) => `old.${column}`);
      const now = columns.map((column) => `new.${column}`);
      for (const [moment, cells] of [
        ['insert', now],
        ['update', [...old, ...now]],
        ['delete', old],
      ] as const) {
        db.exec(`create temp trigger seen_${moment}_${table} after ${moment} on main.${table}
          begin select observe('${table}', '${moment}', ${cells.join(', ')}); end`);
      }
    }
  }

  /** The number of changes so far; later ones can be undone. */
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

function toRow(columns: readonly string[], cells: readonly Cell[], from: number): Row {
  const row: Record<string, Cell> = {};
  for (let index = 0; index < columns.length; index += 1) {
    row[columns[index] ?? ''] = cells[from + index] ?? null;
  }
  return row;
}
