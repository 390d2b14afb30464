import { DAY, GIB, MINUTE, SECOND } from './units.ts';

/** Tenants, awake and asleep. */
export const tenantLimits = {
  /** The default limits for all processes of one attempt in a tenant together. */
  tenantPluginMemoryBytes: 1 * GIB,
  tenantPluginProcesses: 128,
  tenantPluginFileBytes: 1 * GIB,
  tenantSlugCharsMax: 40,
  tenantTitleCharsMax: 200,
  /** How long other hosts get to leave the ledger of a tenant that is to be removed. */
  tenantLeaveMs: 60 * SECOND,
  /** How long a tenant in which nothing is to be done stays awake after the last visit. */
  tenantIdleMs: 10 * SECOND,
  /** And one in which nobody was, but something was due. */
  tenantLingerMs: 1 * SECOND,
  /** How often it is seen whether one may sleep; what is due sooner than this keeps it awake. */
  tenantLookMs: 500,
  tenantSoonMs: 2 * SECOND,
  /** How often it is seen at most whether one is due. */
  tenantAgainMs: 100,
  /** Tenants that are woken at once, and awake at once: each has files and threads, or connections. */
  tenantsWakingMax: 4,
  tenantsAwakeMax: { sqlite: 256, postgres: 24 },
  tenantConnectionsMax: 2,
  /** Ledgers whose claims a pause waits for in one transaction, which holds a lock for each. */
  claimLocksMax: 64,
  /** How long one that has work stays awake when others wait for its place. */
  tenantTurnMs: 5 * SECOND,
  /** How long a visitor waits for one to wake, and until one that did not is tried again. */
  tenantWakeMs: 10 * SECOND,
  tenantRetryMs: 1 * SECOND,
  tenantRetryMsMax: 5 * MINUTE,
  /** How often what is past its retention is deleted in one that has nothing else to do. */
  tenantPruneMs: 1 * DAY,
  /** Up to this `queue_length`, the queue is counted for each call; beyond, at a share of the time. */
  queueCountedMax: 1000,
  /** How often what it uses is counted again while it is at one of its limits, and its bytes. */
  tenantCountMs: 100,
  tenantStorageMs: 5 * SECOND,
  /** How long a place is kept for a ledger whose turn it is. */
  turnMs: 1 * SECOND,
} as const;
