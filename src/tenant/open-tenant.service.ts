import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { schemaVersion } from '../ledger/migrate.ts';
import type { Outlook } from './outlook.ts';
import type { TenantRow } from './types.ts';
import type { Config } from '../config/config.ts';

/** The part of an engine that opens and closes with its tenant. */
export interface TenantEngine {
  readonly config: Pick<Config, 'tenants'>;
  start(): Promise<void>;
  stop(): Promise<void>;
  outlook(): Promise<Outlook>;
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
  /** An engine over it, which is not started. */
  readonly makeEngine: (row: () => TenantRow, ledger: Ledger) => Promise<E>;
  /** Names the schedules that all tenants have: who has not seen them must be woken for them. */
  readonly schedules: () => string;
  /** How often to look for due tenants without a hint. */
  readonly pollMs: () => number;
  readonly log: Log;
}

/** A tenant that is awake: its ledger is open, and an engine works on it. */
export class House<E extends TenantEngine = TenantEngine> {
  row: TenantRow;
  readonly engine: E;
  readonly #ledger: Ledger;
  readonly #options: TenantFactory<E>;
  #visitors = 0;
  /** Whether somebody came, or only work that was due. */
  #wasVisited = false;
  readonly #wokenAt = performance.now();
  #busyAt = this.#wokenAt;

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
   * Undefined when nothing is to be done there: then it has been closed again. What it costs to look
   * is to open the ledger, no more.
   */
  static async open<E extends TenantEngine>(
    row: TenantRow,
    why: 'visit' | 'due',
    options: TenantFactory<E>,
  ): Promise<House<E> | undefined> {
    // From here on a crash has it woken again: nothing is accepted in it before this is written.
    if (why === 'visit') await options.root.tenants.recordDue(row.slug, 'now');
    const ledger = await openLedger(row, options);
    try {
      if (why === 'due') {
        const outlook = await ledger.workload.readDue();
        const isCurrent = ((await ledger.meta.read('schedules')) ?? '') === options.schedules();
        const isQuiet = !isToBeDone(outlook, row) && !isPruneDue(outlook);
        if (isQuiet && isCurrent && !outlook.isInLine) {
          await ledger.close();
          await noteDue(row, outlook, options.root);
          return undefined;
        }
      }
      const current = { row: () => row };
      const engine = await options.makeEngine(() => current.row(), ledger);
      return new House(row, ledger, engine, options, current);
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

  get visitors(): number {
    return this.#visitors;
  }

  come(): void {
    this.#visitors += 1;
    this.#wasVisited = true;
  }

  /** What the visitor did may not have been seen by whoever looks just now. */
  go(): void {
    this.#visitors -= 1;
    this.#busyAt = performance.now();
  }

  /**
   * Since when nothing is to be done in it and nobody is there, in milliseconds; 0 when it is busy.
   * Whoever does not answer is left alone, and keeps nobody else waiting; its engine tells of it.
   */
  async idleMs(): Promise<number> {
    const outlook = await this.engine.outlook().catch(() => undefined);
    const isIdle = outlook !== undefined && !isToBeDone(outlook, this.row);
    if (isIdle && this.#visitors === 0) return performance.now() - this.#busyAt;
    this.#busyAt = performance.now();
    return 0;
  }

  get awakeMs(): number {
    return performance.now() - this.#wokenAt;
  }

  mayIdleMs(): number {
    const { idleMs } = this.engine.config.tenants;
    return this.#wasVisited ? idleMs : Math.min(idleMs, limits.tenantLingerMs);
  }

  /** Ends what it does, closes its ledger, and has it written down when it is to be woken. */
  async close(): Promise<void> {
    const { log, root } = this.#options;
    let outlook: Outlook | undefined;
    try {
      await this.engine.stop();
      outlook = await this.#ledger.workload.readDue();
    } catch (error) {
      const fields = { tenant: this.row.slug, error: messageOf(error) };
      log.warn('a tenant was not put to sleep in good order', fields);
    }
    await this.#ledger.close();
    // Without a note it stays due, and is looked at soon.
    if (outlook !== undefined) await noteDue(this.row, outlook, root);
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

/** In a suspended one nothing is started, so that something is ready says nothing. */
function isToBeDone({ isReady, isRunning, nextInMs }: Outlook, { status }: TenantRow): boolean {
  if (isRunning || (isReady && status === 'active')) return true;
  return (nextInMs ?? Infinity) < limits.tenantDueSoonMs;
}

function isPruneDue({ prunedMs }: Outlook): boolean {
  return prunedMs === undefined || prunedMs >= limits.tenantPruneMs;
}

async function noteDue(row: TenantRow, outlook: Outlook, root: Ledger): Promise<void> {
  const { isReady, isRunning, nextInMs = Infinity, prunedMs = 0 } = outlook;
  const isNow = isRunning || (isReady && row.status === 'active');
  const pruneInMs = Math.max(limits.pruneEveryMs, limits.tenantPruneMs - prunedMs);
  // One that has had its turn comes after those that were due before it is again.
  const inMs = isNow ? 0 : Math.max(0, Math.min(nextInMs, pruneInMs));
  const nowMs = fromTimestamp(await root.now());
  await root.tenants.recordDue(row.slug, { at: toTimestamp(nowMs + inMs), row });
}
