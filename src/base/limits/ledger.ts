import { DAY, GIB, HOUR, MIB, MINUTE, SECOND } from './units.ts';

/** The ledger and tenants: the journal of SQLite, retention, tokens, open tenants. */
export const ledgerLimits = {
  /** How often a start begins again whose connection the database has ended. */
  startRetriesMax: 5,
  jobQueueRetentionMs: 30 * DAY,
  jobLogRetentionMs: 30 * DAY,
  signalRetentionMs: 30 * DAY,
  factRetentionMs: 365 * DAY,
  contextRetentionMs: 30 * DAY,
  directiveRetentionMs: 365 * DAY,
  /** How long a caller's key answers with the first answer. */
  idempotencyRetentionMs: 24 * HOUR,
  /** How long a revoked or expired token can still be looked up in the ledger. */
  tokenRetentionMs: 90 * DAY,
  /** Tokens on a ledger that are in force at once. */
  tokensMax: 1000,
  tokenLifeMsMax: 10 * 365 * DAY,
  scopesMax: 100,
  scopeCharsMax: 300,
  /** How long a process may act on what it last heard about the ledger's tokens. */
  tokenCacheMs: 1 * SECOND,
  tokenUseEveryMs: 30 * SECOND,
  /** Rows that one step of the pruner deletes, and how often retention is a directive on record. */
  pruneRowsMax: 1000,
  retentionRecordMs: 1 * HOUR,
  /** The shortest time that a tenant sleeps before it is woken only to be pruned. */
  pruneEveryMs: 1 * MINUTE,
  /** Long work lets others have their turn after as much. */
  sliceMs: 5,
  /** Where the last sync of the disk was quicker than this, the next one is waited for on the spot. */
  inlineSyncMs: 2,
  /** Rows that a page of a list looks at, when few of them fit the filter. */
  listVisitMax: 3000,
  /** Attempts that one page of logs visits; they cost more than jobs, and their output is long. */
  searchVisitMax: 1000,
  /** The same for a caller who can't read all of it, so that each is masked before it is searched. */
  maskedSearchRowsMax: 200,
  /** Characters of an error, a stderr or a result that a search looks through. */
  searchCharsMax: 65_536,
  /** How far a clock may be set back before lists by time miss jobs from around that moment. */
  clockSetBackMs: 10 * SECOND,
  /** Attempts that one summary looks at, the latest. */
  statisticsRowsMax: 100_000,
  /** A SQLite file up to this size is looked through in a self-check, which has to be short. */
  quickCheckBytesMax: 64 * MIB,
  /** How often indexes are compared with their tables, and how many findings are kept. */
  indexCheckMs: 24 * 60 * 60 * 1000,
  indexProblemsMax: 20,
  /** When indexes are compared again that could not be, and how long others wait after a comparison. */
  indexCheckRetryMs: 60 * 1000,
  indexCheckRestFactor: 10,
  indexCheckRestMsMax: 60 * 1000,
  busyTimeoutMs: 5 * SECOND,
  /** Threads that read SQLite files, for all ledgers together, and their priority on Linux. */
  readerThreadsMax: 2,
  readerNiceness: 5,
  /** Threads that were given up because a read took too long and that still run. */
  readerThreadsRetiredMax: 2,
  /** How long one read may take, and how many may wait for a thread. */
  readMs: 15 * SECOND,
  readsWaitingMax: 10_000,
  /** How long reader threads stay without work; files and statements that each keeps open. */
  readerIdleMs: 30 * SECOND,
  readerFilesMax: 16,
  /** Keys that one read by key may have; a read with more runs in a reader thread. */
  inlineKeysMax: 4,
  readerStatementsMax: 256,
  /** Pages of SQLite's journal from which on a thread folds it in, and from which on a commit does. */
  journalPages: 4000,
  journalPagesMax: 16_000,
  /** Commits in a row after which nobody looks how long it is, at most. */
  journalCommitsUncheckedMax: 8,
  /** How long that thread stays without work, and until it is tried again after it failed. */
  checkpointIdleMs: 10 * SECOND,
  checkpointRetryMs: 1 * MINUTE,
  breakerTransitionsRetentionMs: 90 * DAY,
  /** The default limits for all processes of one attempt in a tenant together. */
  tenantPluginMemoryBytes: 1 * GIB,
  tenantPluginProcesses: 128,
  tenantPluginFileBytes: 1 * GIB,
  tenantSlugCharsMax: 40,
  tenantTitleCharsMax: 200,
  /** How long other hosts get to leave the ledger of a tenant that is to be removed. */
  tenantLeaveMs: 60 * SECOND,
  /** How long an idle tenant stays open after the last request. */
  tenantIdleMs: 10 * SECOND,
  /** How long an idle tenant stays open if it was opened only for due work. */
  tenantLingerMs: 1 * SECOND,
  /** How often it is seen whether one may sleep; what is due sooner than this keeps it awake. */
  tenantSleepCheckMs: 500,
  tenantDueSoonMs: 2 * SECOND,
  /** How often it is seen at most whether one is due. */
  tenantDueCheckMs: 100,
  /** Tenants that are woken at once, and awake at once: each has files and threads, or connections. */
  tenantsWakingMax: 4,
  tenantsAwakeMax: { sqlite: 256, postgres: 24 },
  tenantConnectionsMax: 2,
  /** Ledgers whose claims a pause waits for in one transaction, which holds a lock for each. */
  claimLocksMax: 64,
  /** How long one that has work stays awake when others wait for its place. */
  tenantAwakeTurnMs: 5 * SECOND,
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
  ledgerTurnMs: 1 * SECOND,
} as const;
