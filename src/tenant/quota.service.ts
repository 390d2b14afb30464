import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Usage } from './workload.sql.ts';
import type { QueueLimit } from '../job/types.ts';
import type { TenantLimits, TenantRow } from './tenants.ts';
import type { QuotaRequest, Quota } from './tenants.ts';
import type { TenantSelf } from './tenants.ts';

/** The quota of the root ledger. */
export const unlimited: Quota = {
  within: (_request, work) => work(),
  queueLimit: () => undefined,
  workers: () => undefined,
  skipReason: () => undefined,
  review: () => Promise.resolve(),
};

/** The last count, and what was accepted since. */
interface Tally {
  readonly usage: Usage;
  readonly countedAt: number;
  /** True if work was in progress during the count, so that it may be counted twice. */
  readonly isBlurred: boolean;
  readonly tookMs: number;
  jobs: number;
  signals: number;
}

/**
 * Checks the limits of a tenant. For a small limit the ledger counts the queue in the transaction that
 * adds to it, which is exact over all hosts. Counting costs time up to the limit. So for larger limits
 * the quota adds what it accepted to the last count, and counts again when the sum reaches a limit. Each
 * host does that by itself, so the limit can be exceeded by what other hosts accepted meanwhile.
 */
export function makeQuota(
  ledger: LedgerSubset<'workload.readUsage'>,
  { row: tenant, isHeld }: Pick<TenantSelf, 'row' | 'isHeld'>,
): Quota {
  let tally: Tally | undefined;
  let counting: Promise<Tally> | undefined;
  let inProgress: QuotaRequest = { jobs: 0, signals: 0 };
  /** The total of all accepted work: the difference is what came in during a count. */
  let accepted: QuotaRequest = { jobs: 0, signals: 0 };
  const running = new Set<Promise<unknown>>();

  const count = async (): Promise<Tally> => {
    const { queueLength, signalsPerMinute } = tenant().limits;
    // Work in progress may or may not be in the count. Counting it twice is better than not at all.
    const countedAt = performance.now();
    const before = minus(inProgress, accepted);
    const wasRunning = running.size > 0;
    const usage = await ledger.workload.readUsage({
      queued: queueLength ?? 0,
      signals: signalsPerMinute ?? 0,
    });
    const more = plus(before, accepted);
    const isBlurred = wasRunning || more.jobs + more.signals > 0;
    return (tally = { ...more, countedAt, isBlurred, usage, tookMs: ageOf({ countedAt }) });
  };
  const recount = (): Promise<Tally> =>
    (counting ??= count().finally(() => (counting = undefined)));

  const readTally = async (request: QuotaRequest): Promise<Tally> => {
    const known = tally ?? (await recount());
    const exceeded = findExceeded(known, request, tenant().limits);
    if (exceeded !== undefined && known.isBlurred) {
      // Wait for work in progress, so that no caller is refused because of a double count.
      await Promise.allSettled(running);
      return await recount();
    }
    return isStale(known, exceeded, tenant().limits) ? await recount() : known;
  };

  const admit = async (request: QuotaRequest): Promise<void> => {
    refuseSuspended(tenant());
    if (isLimited(tenant().limits)) {
      const counted = withoutCounted(request, tenant());
      const exceeded = findExceeded(await readTally(counted), counted, tenant().limits);
      if (exceeded !== undefined) throw createLimitError(exceeded, tenant());
    }
    accepted = plus(accepted, request);
    // Change it in place, because concurrent calls may use this tally.
    if (tally !== undefined) Object.assign(tally, plus(tally, request));
  };

  return {
    async within(request, work) {
      await admit(request);
      inProgress = plus(inProgress, request);
      const working = work();
      running.add(working);
      try {
        return await working;
      } finally {
        running.delete(working);
        inProgress = minus(inProgress, request);
      }
    },
    queueLimit: () => queueLimitOf(tenant()),
    workers() {
      const { status, limits: most } = tenant();
      return status !== 'active' || isHeld() ? 0 : (most.workers ?? undefined);
    },
    skipReason: () => findSkipReason(tenant(), tally),
    async review() {
      if (!isLimited(tenant().limits)) return;
      if (tally === undefined || mayCountAgain(tally)) await recount();
    },
  };
}

/** Returns why the next job would be refused, without counting. */
function findSkipReason({ status, limits: most }: TenantRow, tally: Tally | undefined) {
  if (status !== 'active') return 'tenant_suspended';
  if (tally === undefined) return undefined;
  const exceeded = findExceeded(tally, { jobs: 1, signals: 0 }, most);
  return exceeded === undefined ? undefined : 'tenant_limit';
}

function plus(one: QuotaRequest, other: QuotaRequest): QuotaRequest {
  return { jobs: one.jobs + other.jobs, signals: one.signals + other.signals };
}

function minus(one: QuotaRequest, other: QuotaRequest): QuotaRequest {
  return { jobs: one.jobs - other.jobs, signals: one.signals - other.signals };
}

function isLimited({ queueLength, signalsPerMinute, storageBytes }: TenantLimits): boolean {
  return queueLength !== null || signalsPerMinute !== null || storageBytes !== null;
}

interface ExceededLimit {
  readonly limit: 'queue_length' | 'signals_per_minute' | 'storage_bytes';
  readonly most: number;
}

function findExceeded(
  { usage, jobs, signals }: Tally,
  request: QuotaRequest,
  { queueLength, signalsPerMinute, storageBytes }: TenantLimits,
): ExceededLimit | undefined {
  if (
    queueLength !== null &&
    request.jobs > 0 &&
    usage.queued + jobs + request.jobs > queueLength
  ) {
    return { limit: 'queue_length', most: queueLength };
  }
  const emitted = usage.signals + signals + request.signals;
  if (signalsPerMinute !== null && request.signals > 0 && emitted > signalsPerMinute) {
    return { limit: 'signals_per_minute', most: signalsPerMinute };
  }
  if (storageBytes !== null && usage.bytes >= storageBytes) {
    return { limit: 'storage_bytes', most: storageBytes };
  }
  return undefined;
}

/** True if the limit is small enough to count the queue for each call. */
function isCountable(queueLength: number | null): queueLength is number {
  return queueLength !== null && queueLength <= limits.queueCountedMax;
}

function queueLimitOf({ slug, limits: { queueLength } }: TenantRow): QueueLimit | undefined {
  return isCountable(queueLength) ? { most: queueLength, tenant: slug } : undefined;
}

/** Returns the part of a request that the ledger doesn't count. */
function withoutCounted(request: QuotaRequest, tenant: TenantRow): QuotaRequest {
  const isCounted = request.isCountedByLedger === true && queueLimitOf(tenant) !== undefined;
  return isCounted ? { ...request, jobs: 0 } : request;
}

function isStale(
  known: Tally,
  exceeded: ExceededLimit | undefined,
  { storageBytes }: TenantLimits,
): boolean {
  if (exceeded?.limit === 'queue_length' && isCountable(exceeded.most)) return true;
  if (exceeded !== undefined) return mayCountAgain(known);
  return storageBytes !== null && ageOf(known) >= limits.tenantStorageMs;
}

/** Limits the time for counting to a small part of the total. */
function mayCountAgain(known: Tally): boolean {
  return ageOf(known) >= Math.max(limits.tenantCountMs, known.tookMs * COUNT_EVERY);
}

/** The least time between counts, as a multiple of the time that one took. */
const COUNT_EVERY = 50;

function ageOf({ countedAt }: Pick<Tally, 'countedAt'>): number {
  return performance.now() - countedAt;
}

function refuseSuspended({ slug, status }: TenantRow): void {
  if (status === 'active') return;
  throw new DuctileError('TENANT_SUSPENDED', `the tenant ${slug} is ${status}`);
}

function createLimitError({ limit, most }: ExceededLimit, { slug }: TenantRow): DuctileError {
  const message = `the tenant ${slug} has reached its limit ${limit}, which is ${most}`;
  return new DuctileError('TENANT_LIMIT', message, { place: limit, details: { limit, most } });
}
