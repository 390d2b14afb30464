import { makeEarliestTimer, settlesWithin } from '../base/timer.ts';
import { makeFailureLog, type FailureLog } from '../base/log.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { makeLoop } from '../base/service.ts';
import type { TenantRow } from './types.ts';
import { House, type TenantFactory, type TenantEngine } from './open-tenant.service.ts';
import { makeGate, type Gate } from './open-limit.ts';
import { Room } from './eviction.service.ts';
import type { TenantKeeper, Visit } from './tenants.ts';

/** One that could not be woken, and when it is tried again. */
interface Failure {
  readonly tries: number;
  readonly atMs: number;
  readonly untilMs: number;
  readonly error: unknown;
}

export function makeTenants<E extends TenantEngine>(options: TenantFactory<E>): TenantKeeper<E> {
  return new Keeper(options);
}

class Keeper<E extends TenantEngine> implements TenantKeeper<E> {
  readonly name = 'tenants';
  readonly #lookComplaint: FailureLog;
  readonly #options: TenantFactory<E>;
  readonly #houses = new Map<string, House<E>>();
  /** Being woken or put to sleep: nobody gets in until that is over. */
  readonly #changing = new Map<string, Promise<void>>();
  readonly #failures = new Map<string, Failure>();
  readonly #secluded = new Set<string>();
  readonly #gate: Gate;
  readonly #room = new Room({
    houses: () => [...this.#houses.values()].filter(({ row }) => !this.#changing.has(row.slug)),
    wanted: () => this.#gate.waiting + this.#dueOutside,
    close: ({ row }) => this.#close(row.slug),
    onError: (error) => this.#logFailure('no room was made for a tenant', error),
  });
  readonly #sleeper = makeLoop({
    name: 'sleeper',
    everyMs: () => limits.tenantSleepCheckMs,
    runOnce: () => this.#putToSleep(),
    onError: (error) => this.#logFailure('looking after the tenants failed', error),
  });
  readonly #alarm = makeEarliestTimer(() => this.#look());
  /** How many were due at the last look and found no place. */
  #dueOutside = 0;
  #lookedAt = -Infinity;
  #isStarted = false;
  #isStopping = false;
  #stopping: Promise<void> | undefined;

  constructor(options: TenantFactory<E>) {
    this.#options = options;
    this.#lookComplaint = makeFailureLog((fields) =>
      options.log.error('looking for due tenants failed', fields),
    );
    const awakeMax = limits.tenantsAwakeMax[options.root.kind];
    this.#gate = makeGate(limits.tenantsWakingMax, awakeMax, () => void this.#room.make());
  }

  get awake(): readonly string[] {
    return [...this.#houses.keys()];
  }

  async start(): Promise<void> {
    this.#isStarted = true;
    await this.#sleeper.start();
    await this.#announce();
    this.soon();
  }

  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#isStopping = true;
    const looking = this.#alarm.stop();
    this.#gate.hurry();
    await this.#sleeper.stop();
    await looking;
    await Promise.all(this.#changing.values());
    await Promise.all(this.awake.map((slug) => this.#close(slug)));
  }

  soon(): void {
    this.#alarm.in(Math.max(0, this.#lookedAt + limits.tenantDueCheckMs - performance.now()));
  }

  async mourn(): Promise<void> {
    // A file has one process: what was awake when it died is due anyway.
    if (this.#options.root.kind === 'sqlite') return;
    await this.#options.root.tenants.recordAllDue();
    this.soon();
  }

  async awaitPause(): Promise<void> {
    await Promise.all([...this.#houses.values()].map(({ engine }) => engine.withholdAll()));
    await this.#options.root.tenants.awaitClaims();
  }

  renew(): void {
    this.#announce().catch((error: unknown) =>
      this.#logFailure('tenants sleep over a change', error),
    );
    for (const [slug, { engine }] of this.#houses) {
      const fields = { tenant: slug };
      engine
        .renew()
        .catch((error: unknown) => this.#logFailure('a tenant was not renewed', error, fields));
    }
  }

  async visit(slug: string): Promise<Visit<E>> {
    const row = await this.#admit(slug);
    for (;;) {
      const house = this.#houses.get(slug);
      const changing = this.#changing.get(slug);
      if (house !== undefined && changing === undefined) return this.#enter(house, row);
      if (changing === undefined) this.#refuseFailed(slug, limits.tenantRetryMs);
      const change = changing ?? this.#wake(slug, 'visit');
      if (!(await settlesWithin(change, limits.tenantWakeMs))) {
        throw unavailable(slug, `it was not awake within ${limits.tenantWakeMs / 1000} s`);
      }
      this.#refuseFailed(slug);
      await this.#admit(slug);
    }
  }

  async seclude(slug: string): Promise<void> {
    this.#secluded.add(slug);
    this.#gate.hurry(slug);
    await this.#changing.get(slug);
    await this.#close(slug);
  }

  release(slug: string): void {
    this.#secluded.delete(slug);
    this.#failures.delete(slug);
    this.soon();
  }

  /** Those that sleep must learn which schedules they have now. */
  async #announce(): Promise<void> {
    const { root, schedules } = this.#options;
    if (((await root.meta.read('schedules')) ?? '') === schedules()) return;
    await root.tenants.recordAllDue();
    await root.meta.write('schedules', schedules());
    this.soon();
  }

  /** What the root ledger says of it now, if it may be entered. */
  async #admit(slug: string): Promise<TenantRow> {
    const row = await this.#options.root.tenants.find(slug);
    if (row === undefined) {
      throw new DuctileError('TENANT_NOT_FOUND', `there is no tenant ${slug}`);
    }
    if (!mayBeEntered(row)) {
      throw unavailable(slug, `it is ${row.status}`);
    }
    if (this.#secluded.has(slug)) throw unavailable(slug, 'it is being worked on');
    if (this.#isStopping) throw new DuctileError('STOPPING', 'the engine is stopping');
    return row;
  }

  #enter(house: House<E>, row: TenantRow): Visit<E> {
    this.#room.recall(house);
    house.row = row;
    house.come();
    let isOver = false;
    return {
      engine: house.engine,
      tenant: row,
      end() {
        if (!isOver) house.go();
        isOver = true;
      },
    };
  }

  /** Never rejects: what went wrong is kept, for whoever wants to get in. */
  #wake(slug: string, why: 'visit' | 'due'): Promise<void> {
    if (this.#isStopping || this.#secluded.has(slug)) return Promise.resolve();
    const waking = this.#gate
      .pass(slug, async () => {
        const house = await this.#open(slug, why);
        this.#failures.delete(slug);
        if (house !== undefined) this.#houses.set(slug, house);
        return house !== undefined;
      })
      .catch((error: unknown) => this.#fail(slug, error))
      .finally(() => this.#changing.delete(slug));
    this.#changing.set(slug, waking);
    return waking;
  }

  /** Who has waited for a place may have been deleted meanwhile. */
  async #open(slug: string, why: 'visit' | 'due'): Promise<House<E> | undefined> {
    const row = await this.#options.root.tenants.find(slug);
    const isOver = this.#isStopping || this.#secluded.has(slug);
    if (row === undefined || isOver || !mayBeEntered(row)) return undefined;
    const house = await House.open(row, why, this.#options);
    if (this.#isStarted) await house?.start();
    return house;
  }

  #fail(slug: string, error: unknown): void {
    const tries = (this.#failures.get(slug)?.tries ?? 0) + 1;
    const ms = Math.min(limits.tenantRetryMs * 2 ** (tries - 1), limits.tenantRetryMsMax);
    const atMs = performance.now();
    this.#failures.set(slug, { tries, atMs, untilMs: atMs + ms, error });
    this.#logFailure('a tenant could not be woken', error, { tenant: slug, retry_in_ms: ms });
    this.#alarm.in(ms);
  }

  /** Many may want to get into one that does not open: the others must not wait for each of them. */
  #refuseFailed(slug: string, withinMs = Infinity): void {
    const failure = this.#failures.get(slug);
    if (failure === undefined || performance.now() - failure.atMs > withinMs) return;
    throw unavailable(slug, messageOf(failure.error), failure.error);
  }

  /** However many find that it is to be closed, it is closed once. */
  async #close(slug: string): Promise<void> {
    const changing = this.#changing.get(slug);
    const house = this.#houses.get(slug);
    if (changing !== undefined || house === undefined) return await changing;
    const closing = house
      .close()
      .catch((error: unknown) =>
        this.#logFailure('a tenant was not closed', error, { tenant: slug }),
      )
      .finally(() => {
        this.#houses.delete(slug);
        this.#changing.delete(slug);
        this.#gate.leave();
        // Something may have been made ready at the last moment.
        this.soon();
      });
    this.#changing.set(slug, closing);
    await closing;
  }

  async #look(): Promise<void> {
    this.#lookedAt = performance.now();
    let nextInMs = this.#options.pollMs();
    try {
      await this.#heedRows();
      const { root } = this.#options;
      const due = await root.tenants.listDue(this.#houses.size + this.#failures.size + DUE_MAX);
      nextInMs = Math.min(nextInMs, due.nextInMs ?? nextInMs);
      this.#dueOutside = 0;
      this.#lookComplaint.reset();
      for (const slug of due.slugs) this.#wakeDue(slug);
      if (this.#dueOutside > 0) void this.#room.make();
    } catch (error) {
      this.#lookComplaint.report(error);
    }
    this.#alarm.in(nextInMs);
  }

  /** Somebody may have suspended, limited or deleted one that is awake. */
  async #heedRows(): Promise<void> {
    const { root } = this.#options;
    for (const [slug, house] of this.#houses) {
      if (this.#changing.has(slug)) continue;
      const row = await root.tenants.find(slug);
      if (row === undefined || row.status === 'deleting') {
        await this.#close(slug);
        continue;
      }
      const isChanged = row.updatedAt !== house.row.updatedAt;
      house.row = row;
      // Hints of other hosts come to the root ledger, whichever of them they are about.
      if (root.kind === 'postgres' || isChanged) house.engine.lookForWork();
    }
  }

  #wakeDue(slug: string): void {
    if (this.#houses.has(slug) || this.#changing.has(slug) || this.#secluded.has(slug)) return;
    if ((this.#failures.get(slug)?.untilMs ?? 0) > performance.now()) return;
    // Who waits for a place is looked for again: of those that are due, none is forgotten.
    if (this.#gate.isFull) this.#dueOutside += 1;
    if (!this.#gate.isOpen) return;
    void this.#wake(slug, 'due').then(() => this.soon());
  }

  async #putToSleep(): Promise<void> {
    for (const [slug, house] of this.#houses) {
      const idleMs = this.#changing.has(slug) ? 0 : await house.idleMs();
      // Somebody may have come while it was looked at.
      const mayClose = idleMs > 0 && house.visitors === 0;
      if (mayClose && idleMs >= house.mayIdleMs()) await this.#close(slug);
    }
    await this.#room.make();
  }

  #logFailure(message: string, error: unknown, fields: Record<string, unknown> = {}): void {
    this.#options.log.error(message, { ...fields, error: messageOf(error) });
  }
}

/** Of those that are due, as many are looked for at once, besides those that are awake. */
const DUE_MAX = 100;

function mayBeEntered({ status }: TenantRow): boolean {
  return status === 'active' || status === 'suspended';
}

function unavailable(slug: string, why: string, cause?: unknown): DuctileError {
  return new DuctileError('TENANT_UNAVAILABLE', `the tenant ${slug} cannot be entered: ${why}`, {
    cause,
  });
}
