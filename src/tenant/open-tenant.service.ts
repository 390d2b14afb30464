import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { schemaVersion } from '../ledger/migrate.ts';
import type { Workload } from './workload.sql.ts';
import type { TenantRow } from './tenants.ts';
import type { Config } from '../config/config.ts';

/** The part of an engine that opens and closes with its tenant. */
export interface TenantEngine {
  readonly config: Pick<Config, 'tenants'>;
  start(): Promise<void>;
  stop(): Promise<void>;
  readWorkload(): Promise<Workload>;
  renew(): Promise<void>;
  lookForWork(): void;
  drain(): Promise<void>;
  resume(): void;
  withholdAll(): Promise<void>;
}

/** Opens the tenants of a process. */
export interface TenantFactory<E extends TenantEngine> {
  readonly root: Ledger;
  /** Opens a tenant's ledger and brings its schema up to date. */
  readonly openLedger: (row: TenantRow) => Promise<Ledger>;
  /** Creates an engine for an open ledger, without starting it. */
  readonly makeEngine: (row: () => TenantRow, ledger: Ledger) => Promise<E>;
  /** Identifies the schedules that all tenants share: a tenant that has stored others is opened once. */
  readonly schedules: () => string;
  /** How often to look for due tenants without a hint. */
  readonly pollMs: () => number;
  readonly log: Log;
}

/** A tenant whose ledger is open, with its engine. */
export class OpenTenant<E extends TenantEngine = TenantEngine> {
  row: TenantRow;
  readonly engine: E;
  readonly #ledger: Ledger;
  readonly #options: TenantFactory<E>;
  #visits = 0;
  /** False if only due work opened it. */
  #wasVisited = false;
  readonly #openedAt = performance.now();
  #busyAt = this.#openedAt;

  private constructor(
    row: TenantRow,
    ledger: Ledger,
    engine: E,
    options: TenantFactory<E>,
    current: { row: () => TenantRow },
  ) {
    this.row = row;
    this.engine = engine;
    this.#ledger = ledger;
    this.#options = options;
    current.row = () => this.row;
  }

  /**
   * Opens a tenant for a visit or for due work. If nothing is due, it closes the ledger again and returns
   * undefined, without the cost of an engine.
   */
  static async open<E extends TenantEngine>(
    row: TenantRow,
    why: 'visit' | 'due',
    options: TenantFactory<E>,
  ): Promise<OpenTenant<E> | undefined> {
    // Nothing is accepted before this is written, so that the tenant is opened again after a crash.
    if (why === 'visit') await options.root.tenants.recordDue(row.slug, 'now');
    const ledger = await openLedger(row, options);
    try {
      if (why === 'due') {
        const workload = await ledger.workload.readDue();
        const isCurrent = ((await ledger.meta.read('schedules')) ?? '') === options.schedules();
        const isQuiet = !hasWork(workload, row) && !isPruneDue(workload);
        if (isQuiet && isCurrent && !workload.hasQueuedRuns) {
          await ledger.close();
          await recordDue(row, workload, options.root);
          return undefined;
        }
      }
      const current = { row: () => row };
      const engine = await options.makeEngine(() => current.row(), ledger);
      return new OpenTenant(row, ledger, engine, options, current);
    } catch (error) {
      await ledger.close();
      throw error;
    }
  }

  async start(): Promise<void> {
    try {
      await this.engine.start();
      await this.#ledger.meta.write('schedules', this.#options.schedules());
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  get visits(): number {
    return this.#visits;
  }

  beginVisit(): void {
    this.#visits += 1;
    this.#wasVisited = true;
  }

  /** Counts as busy, because a check of the workload in progress may have missed what the visit did. */
  endVisit(): void {
    this.#visits -= 1;
    this.#busyAt = performance.now();
  }

  /**
   * Returns for how long there has been no work and no visit; 0 if it is busy. A ledger that can't be read
   * counts as busy: the engine reports the error.
   */
  async idleMs(): Promise<number> {
    const workload = await this.engine.readWorkload().catch(() => undefined);
    const isIdle = workload !== undefined && !hasWork(workload, this.row);
    if (isIdle && this.#visits === 0) return performance.now() - this.#busyAt;
    this.#busyAt = performance.now();
    return 0;
  }

  get openMs(): number {
    return performance.now() - this.#openedAt;
  }

  /** Returns after how much idle time it is closed. */
  maxIdleMs(): number {
    const { idleMs } = this.engine.config.tenants;
    return this.#wasVisited ? idleMs : Math.min(idleMs, limits.tenantLingerMs);
  }

  /** Stops the engine, closes the ledger, and records when the tenant is due next. */
  async close(): Promise<void> {
    const { log, root } = this.#options;
    let workload: Workload | undefined;
    try {
      await this.engine.stop();
      workload = await this.#ledger.workload.readDue();
    } catch (error) {
      const fields = { tenant: this.row.slug, error: messageOf(error) };
      log.warn('a tenant was not closed cleanly', fields);
    }
    await this.#ledger.close();
    // Without a record it stays due, and is opened again soon.
    if (workload !== undefined) await recordDue(this.row, workload, root);
  }
}

async function openLedger(
  row: TenantRow,
  options: Pick<TenantFactory<TenantEngine>, 'openLedger' | 'root'>,
): Promise<Ledger> {
  const { slug } = row;
  try {
    const ledger = await options.openLedger(row);
    if (row.schemaVersion !== schemaVersion || row.schemaError !== null) {
      await options.root.tenants.recordSchema(slug, { version: schemaVersion, error: null });
    }
    return ledger;
  } catch (error) {
    const version = row.schemaVersion ?? 0;
    await options.root.tenants.recordSchema(slug, { version, error: messageOf(error) });
    throw error;
  }
}

/** True if something runs or is due soon. Ready jobs of a suspended tenant don't count. */
function hasWork({ isReady, isRunning, nextInMs }: Workload, { status }: TenantRow): boolean {
  if (isRunning || (isReady && status === 'active')) return true;
  return (nextInMs ?? Infinity) < limits.tenantDueSoonMs;
}

function isPruneDue({ prunedMs }: Workload): boolean {
  return prunedMs === undefined || prunedMs >= limits.tenantPruneMs;
}

async function recordDue(row: TenantRow, workload: Workload, root: Ledger): Promise<void> {
  const { isReady, isRunning, nextInMs = Infinity, prunedMs = 0 } = workload;
  const isNow = isRunning || (isReady && row.status === 'active');
  const pruneInMs = Math.max(limits.pruneEveryMs, limits.tenantPruneMs - prunedMs);
  // The current time puts a tenant that was drained behind those that are due already.
  const inMs = isNow ? 0 : Math.max(0, Math.min(nextInMs, pruneInMs));
  const nowMs = fromTimestamp(await root.now());
  await root.tenants.recordDue(row.slug, { at: toTimestamp(nowMs + inMs), row });
}
