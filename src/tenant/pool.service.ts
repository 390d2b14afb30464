import { makeEarliestTimer, settlesWithin } from '../base/timer.ts';
import { makeFailureLog, type FailureLog } from '../base/log.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { makeLoop } from '../base/service.ts';
import type { TenantRow } from './tenants.ts';
import { OpenTenant, type TenantFactory, type TenantEngine } from './open-tenant.service.ts';
import { makeOpenLimit, TenantEviction, type OpenLimit } from './open-limit.service.ts';
import type { TenantPool, Visit } from './tenants.ts';

/** The reason why a tenant could not be opened, and when it is tried again. */
interface OpenFailure {
  readonly tries: number;
  readonly atMs: number;
  readonly untilMs: number;
  readonly error: unknown;
}

export function makeTenantPool<E extends TenantEngine>(options: TenantFactory<E>): TenantPool<E> {
  return new Pool(options);
}

class Pool<E extends TenantEngine> implements TenantPool<E> {
  readonly name = 'tenants';
  readonly #dueFailures: FailureLog;
  readonly #options: TenantFactory<E>;
  readonly #tenants = new Map<string, OpenTenant<E>>();
  /** Tenants that are being opened or closed: visits wait for it. */
  readonly #changing = new Map<string, Promise<void>>();
  readonly #failures = new Map<string, OpenFailure>();
  readonly #blocked = new Set<string>();
  readonly #limit: OpenLimit;
  readonly #eviction = new TenantEviction({
    tenants: () => [...this.#tenants.values()].filter(({ row }) => !this.#changing.has(row.slug)),
    wanted: () => this.#limit.waiting + this.#dueWithoutSlot,
    close: ({ row }) => this.#close(row.slug),
    onError: (error) => this.#logFailure('no tenant could be closed to open another one', error),
  });
  readonly #idleLoop = makeLoop({
    name: 'sleeper',
    everyMs: () => limits.tenantSleepCheckMs,
    runOnce: () => this.#closeIdle(),
    onError: (error) => this.#logFailure('closing idle tenants failed', error),
  });
  readonly #timer = makeEarliestTimer(() => this.#openDue());
  /** The number of tenants that were due at the last check and found no slot. */
  #dueWithoutSlot = 0;
  #checkedAt = -Infinity;
  #isStarted = false;
  #isStopping = false;
  #stopping: Promise<void> | undefined;

  constructor(options: TenantFactory<E>) {
    this.#options = options;
    this.#dueFailures = makeFailureLog((fields) =>
      options.log.error('looking for due tenants failed', fields),
    );
    const openMax = limits.tenantsAwakeMax[options.root.kind];
    this.#limit = makeOpenLimit(
      limits.tenantsWakingMax,
      openMax,
      () => void this.#eviction.makeSpace(),
    );
  }

  get open(): readonly string[] {
    return [...this.#tenants.keys()];
  }

  async start(): Promise<void> {
    this.#isStarted = true;
    await this.#idleLoop.start();
    await this.#announceSchedules();
    this.soon();
  }

  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#isStopping = true;
    const checking = this.#timer.stop();
    this.#limit.hurry();
    await this.#idleLoop.stop();
    await checking;
    await Promise.all(this.#changing.values());
    await Promise.all(this.open.map((slug) => this.#close(slug)));
  }

  soon(): void {
    this.#timer.in(Math.max(0, this.#checkedAt + limits.tenantDueCheckMs - performance.now()));
  }

  async makeAllDue(): Promise<void> {
    // A SQLite file has one process. The tenants that it had open are due anyway.
    if (this.#options.root.kind === 'sqlite') return;
    await this.#options.root.tenants.recordAllDue();
    this.soon();
  }

  async awaitPause(): Promise<void> {
    await Promise.all([...this.#tenants.values()].map(({ engine }) => engine.withholdAll()));
    await this.#options.root.tenants.awaitClaims();
  }

  renew(): void {
    this.#announceSchedules().catch((error: unknown) =>
      this.#logFailure('closed tenants were not notified of changed schedules', error),
    );
    for (const [slug, { engine }] of this.#tenants) {
      const fields = { tenant: slug };
      engine
        .renew()
        .catch((error: unknown) =>
          this.#logFailure('a tenant did not load the changed configuration', error, fields),
        );
    }
  }

  async visit(slug: string): Promise<Visit<E>> {
    const row = await this.#requireRow(slug);
    for (;;) {
      const tenant = this.#tenants.get(slug);
      const changing = this.#changing.get(slug);
      if (tenant !== undefined && changing === undefined) return this.#enter(tenant, row);
      if (changing === undefined) this.#refuseFailed(slug, limits.tenantRetryMs);
      const change = changing ?? this.#open(slug, 'visit');
      if (!(await settlesWithin(change, limits.tenantWakeMs))) {
        throw createUnavailableError(
          slug,
          `it did not open within ${limits.tenantWakeMs / 1000} s`,
        );
      }
      this.#refuseFailed(slug);
      await this.#requireRow(slug);
    }
  }

  async block(slug: string): Promise<void> {
    this.#blocked.add(slug);
    this.#limit.hurry(slug);
    await this.#changing.get(slug);
    await this.#close(slug);
  }

  unblock(slug: string): void {
    this.#blocked.delete(slug);
    this.#failures.delete(slug);
    this.soon();
  }

  /** Makes all tenants due if the configured schedules have changed, so that each stores them once. */
  async #announceSchedules(): Promise<void> {
    const { root, schedules } = this.#options;
    if (((await root.meta.read('schedules')) ?? '') === schedules()) return;
    await root.tenants.recordAllDue();
    await root.meta.write('schedules', schedules());
    this.soon();
  }

  /** Reads a tenant's row. Throws if the tenant can't be visited. */
  async #requireRow(slug: string): Promise<TenantRow> {
    const row = await this.#options.root.tenants.find(slug);
    if (row === undefined) {
      throw new DuctileError('TENANT_NOT_FOUND', `there is no tenant ${slug}`);
    }
    if (!canOpen(row)) {
      throw createUnavailableError(slug, `it is ${row.status}`);
    }
    if (this.#blocked.has(slug)) throw createUnavailableError(slug, 'it is being deleted');
    if (this.#isStopping) throw new DuctileError('STOPPING', 'the engine is stopping');
    return row;
  }

  #enter(tenant: OpenTenant<E>, row: TenantRow): Visit<E> {
    this.#eviction.cancel(tenant);
    tenant.row = row;
    tenant.beginVisit();
    let isOver = false;
    return {
      engine: tenant.engine,
      tenant: row,
      end() {
        if (!isOver) tenant.endVisit();
        isOver = true;
      },
    };
  }

  /** Opens a tenant when there is a slot. Never rejects: visits read the error from `#failures`. */
  #open(slug: string, why: 'visit' | 'due'): Promise<void> {
    if (this.#isStopping || this.#blocked.has(slug)) return Promise.resolve();
    const opening = this.#limit
      .enter(slug, async () => {
        const tenant = await this.#openNow(slug, why);
        this.#failures.delete(slug);
        if (tenant !== undefined) this.#tenants.set(slug, tenant);
        return tenant !== undefined;
      })
      .catch((error: unknown) => this.#fail(slug, error))
      .finally(() => this.#changing.delete(slug));
    this.#changing.set(slug, opening);
    return opening;
  }

  /** Reads the row again, because the tenant may have been deleted while it waited for a slot. */
  async #openNow(slug: string, why: 'visit' | 'due'): Promise<OpenTenant<E> | undefined> {
    const row = await this.#options.root.tenants.find(slug);
    const isOver = this.#isStopping || this.#blocked.has(slug);
    if (row === undefined || isOver || !canOpen(row)) return undefined;
    const tenant = await OpenTenant.open(row, why, this.#options);
    if (this.#isStarted) await tenant?.start();
    return tenant;
  }

  #fail(slug: string, error: unknown): void {
    const tries = (this.#failures.get(slug)?.tries ?? 0) + 1;
    const ms = Math.min(limits.tenantRetryMs * 2 ** (tries - 1), limits.tenantRetryMsMax);
    const atMs = performance.now();
    this.#failures.set(slug, { tries, atMs, untilMs: atMs + ms, error });
    this.#logFailure('a tenant could not be opened', error, { tenant: slug, retry_in_ms: ms });
    this.#timer.in(ms);
  }

  /** Throws a recent error at once: many visits of a broken tenant must not take the slots of others. */
  #refuseFailed(slug: string, withinMs = Infinity): void {
    const failure = this.#failures.get(slug);
    if (failure === undefined || performance.now() - failure.atMs > withinMs) return;
    throw createUnavailableError(slug, messageOf(failure.error), failure.error);
  }

  /** Closes a tenant once, even if several callers request it. */
  async #close(slug: string): Promise<void> {
    const changing = this.#changing.get(slug);
    const tenant = this.#tenants.get(slug);
    if (changing !== undefined || tenant === undefined) return await changing;
    const closing = tenant
      .close()
      .catch((error: unknown) =>
        this.#logFailure('a tenant was not closed', error, { tenant: slug }),
      )
      .finally(() => {
        this.#tenants.delete(slug);
        this.#changing.delete(slug);
        this.#limit.leave();
        // Work may have become ready at the last moment.
        this.soon();
      });
    this.#changing.set(slug, closing);
    await closing;
  }

  async #openDue(): Promise<void> {
    this.#checkedAt = performance.now();
    let nextInMs = this.#options.pollMs();
    try {
      await this.#refreshRows();
      const { root } = this.#options;
      const due = await root.tenants.listDue(this.#tenants.size + this.#failures.size + DUE_MAX);
      nextInMs = Math.min(nextInMs, due.nextInMs ?? nextInMs);
      this.#dueWithoutSlot = 0;
      this.#dueFailures.reset();
      for (const slug of due.slugs) this.#openIfFree(slug);
      if (this.#dueWithoutSlot > 0) void this.#eviction.makeSpace();
    } catch (error) {
      this.#dueFailures.report(error);
    }
    this.#timer.in(nextInMs);
  }

  /** Reads the rows of open tenants, which may have been suspended, limited or deleted. */
  async #refreshRows(): Promise<void> {
    const { root } = this.#options;
    for (const [slug, tenant] of this.#tenants) {
      if (this.#changing.has(slug)) continue;
      const row = await root.tenants.find(slug);
      if (row === undefined || row.status === 'deleting') {
        await this.#close(slug);
        continue;
      }
      const isChanged = row.updatedAt !== tenant.row.updatedAt;
      tenant.row = row;
      // The root ledger gets the hints of other hosts for all tenants.
      if (root.kind === 'postgres' || isChanged) tenant.engine.lookForWork();
    }
  }

  #openIfFree(slug: string): void {
    if (this.#tenants.has(slug) || this.#changing.has(slug) || this.#blocked.has(slug)) return;
    if ((this.#failures.get(slug)?.untilMs ?? 0) > performance.now()) return;
    // A tenant without a slot stays due, and the next check finds it again.
    if (this.#limit.isFull) this.#dueWithoutSlot += 1;
    if (!this.#limit.isFree) return;
    void this.#open(slug, 'due').then(() => this.soon());
  }

  async #closeIdle(): Promise<void> {
    for (const [slug, tenant] of this.#tenants) {
      const idleMs = this.#changing.has(slug) ? 0 : await tenant.idleMs();
      // A visit may have started during the check.
      const canClose = idleMs > 0 && tenant.visits === 0;
      if (canClose && idleMs >= tenant.maxIdleMs()) await this.#close(slug);
    }
    await this.#eviction.makeSpace();
  }

  #logFailure(message: string, error: unknown, fields: Record<string, unknown> = {}): void {
    this.#options.log.error(message, { ...fields, error: messageOf(error) });
  }
}

/** The number of due tenants that one check reads, besides the open ones. */
const DUE_MAX = 100;

function canOpen({ status }: TenantRow): boolean {
  return status === 'active' || status === 'suspended';
}

function createUnavailableError(slug: string, why: string, cause?: unknown): DuctileError {
  return new DuctileError('TENANT_UNAVAILABLE', `tenant ${slug} is not available: ${why}`, {
    cause,
  });
}
