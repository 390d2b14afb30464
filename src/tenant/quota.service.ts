import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Usage } from './outlook.ts';
import type { QueueLimit } from '../job/types.ts';
import type { TenantLimits, TenantRow } from './types.ts';
import type { Brought, Quota } from './admission.ts';
import type { TenantSelf } from './tenants.ts';

/** Whoever is alone has everything. */
export const unlimited: Quota = {
  within: (_asked, work) => work(),
  queueLimit: () => undefined,
  workers: () => undefined,
  held: () => undefined,
  review: () => Promise.resolve(),
};

/** What was counted, and what came on top of it since. */
interface Tally {
  readonly usage: Usage;
  readonly countedAt: number;
  /** Something was under way meanwhile, which may be in it twice. */
  readonly isBlurred: boolean;
  readonly tookMs: number;
  jobs: number;
  signals: number;
}

/**
 * A queue with a small limit is counted by the ledger, in the transaction that adds to it: that is
 * exact over all hosts. Counting costs what there is up to the limit. So for larger limits, what was
 * let in is added to what was counted, and it is counted again only when that reaches a limit; on
 * several hosts each counts for itself, and can pass the limit by what the others let in meanwhile.
 */
export function makeQuota(
  ledger: LedgerSubset<'workload.readUsage'>,
  { row: tenant, isHeld }: Pick<TenantSelf, 'row' | 'isHeld'>,
): Quota {
  let tally: Tally | undefined;
  let counting: Promise<Tally> | undefined;
  let underWay: Brought = { jobs: 0, signals: 0 };
  /** All that ever was: what came in while it was counted is the difference. */
  let letIn: Brought = { jobs: 0, signals: 0 };
  const atWork = new Set<Promise<unknown>>();

  const count = async (): Promise<Tally> => {
    const { queueLength, signalsPerMinute } = tenant().limits;
    // What is under way, or comes in meanwhile, may be in the count or not: it is better counted twice than not at all.
    const countedAt = performance.now();
    const before = minus(underWay, letIn);
    const wasAtWork = atWork.size > 0;
    const usage = await ledger.workload.readUsage({
      queued: queueLength ?? 0,
      signals: signalsPerMinute ?? 0,
    });
    const more = plus(before, letIn);
    const isBlurred = wasAtWork || more.jobs + more.signals > 0;
    return (tally = { ...more, countedAt, isBlurred, usage, tookMs: ageOf({ countedAt }) });
  };
  const recount = (): Promise<Tally> =>
    (counting ??= count().finally(() => (counting = undefined)));

  const fresh = async (asked: Brought): Promise<Tally> => {
    const known = tally ?? (await recount());
    const exceeded = findExceeded(known, asked, tenant().limits);
    if (exceeded !== undefined && known.isBlurred) {
      // Nobody is turned away for what was only counted twice.
      await Promise.allSettled(atWork);
      return await recount();
    }
    return isStale(known, exceeded, tenant().limits) ? await recount() : known;
  };

  const admit = async (asked: Brought): Promise<void> => {
    refuseSuspended(tenant());
    if (isLimited(tenant().limits)) {
      const left = withoutCounted(asked, tenant());
      const exceeded = findExceeded(await fresh(left), left, tenant().limits);
      if (exceeded !== undefined) throw overLimit(exceeded, tenant());
    }
    letIn = plus(letIn, asked);
    // In place: others may have this very tally in hand.
    if (tally !== undefined) Object.assign(tally, plus(tally, asked));
  };

  return {
    async within(asked, work) {
      await admit(asked);
      underWay = plus(underWay, asked);
      const working = work();
      atWork.add(working);
      try {
        return await working;
      } finally {
        atWork.delete(working);
        underWay = minus(underWay, asked);
      }
    },
    queueLimit: () => queueLimitOf(tenant()),
    workers() {
      const { status, limits: most } = tenant();
      return status !== 'active' || isHeld() ? 0 : (most.workers ?? undefined);
    },
    held: () => heldBy(tenant(), tally),
    async review() {
      if (!isLimited(tenant().limits)) return;
      if (tally === undefined || mayCountAgain(tally)) await recount();
    },
  };
}

/** Why the next job would not be accepted, as far as is known without counting. */
function heldBy({ status, limits: most }: TenantRow, tally: Tally | undefined) {
  if (status !== 'active') return 'tenant_suspended';
  if (tally === undefined) return undefined;
  const exceeded = findExceeded(tally, { jobs: 1, signals: 0 }, most);
  return exceeded === undefined ? undefined : 'tenant_limit';
}

function plus(one: Brought, other: Brought): Brought {
  return { jobs: one.jobs + other.jobs, signals: one.signals + other.signals };
}

function minus(one: Brought, other: Brought): Brought {
  return { jobs: one.jobs - other.jobs, signals: one.signals - other.signals };
}

function isLimited({ queueLength, signalsPerMinute, storageBytes }: TenantLimits): boolean {
  return queueLength !== null || signalsPerMinute !== null || storageBytes !== null;
}

interface Exceeded {
  readonly limit: 'queue_length' | 'signals_per_minute' | 'storage_bytes';
  readonly most: number;
}

function findExceeded(
  { usage, jobs, signals }: Tally,
  asked: Brought,
  { queueLength, signalsPerMinute, storageBytes }: TenantLimits,
): Exceeded | undefined {
  if (queueLength !== null && asked.jobs > 0 && usage.queued + jobs + asked.jobs > queueLength) {
    return { limit: 'queue_length', most: queueLength };
  }
  const told = usage.signals + signals + asked.signals;
  if (signalsPerMinute !== null && asked.signals > 0 && told > signalsPerMinute) {
    return { limit: 'signals_per_minute', most: signalsPerMinute };
  }
  if (storageBytes !== null && usage.bytes >= storageBytes) {
    return { limit: 'storage_bytes', most: storageBytes };
  }
  return undefined;
}

/** Whether the queue can be counted for each call. */
function isCountable(queueLength: number | null): queueLength is number {
  return queueLength !== null && queueLength <= limits.queueCountedMax;
}

function queueLimitOf({ slug, limits: { queueLength } }: TenantRow): QueueLimit | undefined {
  return isCountable(queueLength) ? { most: queueLength, tenant: slug } : undefined;
}

/** The part that is counted here. */
function withoutCounted(asked: Brought, tenant: TenantRow): Brought {
  const isCounted = asked.isCountedThere === true && queueLimitOf(tenant) !== undefined;
  return isCounted ? { ...asked, jobs: 0 } : asked;
}

function isStale(
  known: Tally,
  exceeded: Exceeded | undefined,
  { storageBytes }: TenantLimits,
): boolean {
  if (exceeded?.limit === 'queue_length' && isCountable(exceeded.most)) return true;
  if (exceeded !== undefined) return mayCountAgain(known);
  return storageBytes !== null && ageOf(known) >= limits.tenantStorageMs;
}

/** However much there is to count, that takes a small part of the time. */
function mayCountAgain(known: Tally): boolean {
  return ageOf(known) >= Math.max(limits.tenantCountMs, known.tookMs * COUNT_EVERY);
}

/** Of the time that a count took. */
const COUNT_EVERY = 50;

function ageOf({ countedAt }: Pick<Tally, 'countedAt'>): number {
  return performance.now() - countedAt;
}

function refuseSuspended({ slug, status }: TenantRow): void {
  if (status === 'active') return;
  throw new DuctileError('TENANT_SUSPENDED', `the tenant ${slug} is ${status}`);
}

function overLimit({ limit, most }: Exceeded, { slug }: TenantRow): DuctileError {
  const message = `the tenant ${slug} has reached its limit ${limit}, which is ${most}`;
  return new DuctileError('TENANT_LIMIT', message, { place: limit, details: { limit, most } });
}
