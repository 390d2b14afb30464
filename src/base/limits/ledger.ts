import { DAY, GIB, HOUR, MIB, MINUTE, SECOND } from '../quantity.ts';

/** The ledger and tenants: the journal of SQLite, retention, tokens, open tenants. */
export const ledgerLimits = {
  /** How often a start is repeated after the database ended its connection. */
  startRetriesMax: 5,
  jobQueueRetentionMs: 30 * DAY,
  jobLogRetentionMs: 30 * DAY,
  signalRetentionMs: 30 * DAY,
  factRetentionMs: 365 * DAY,
  contextRetentionMs: 30 * DAY,
  directiveRetentionMs: 365 * DAY,
  /** How long an idempotency key returns the first response. */
  idempotencyRetentionMs: 24 * HOUR,
  /** How long a revoked or expired token can still be looked up in the ledger. */
  tokenRetentionMs: 90 * DAY,
  /** Valid tokens in a ledger. */
  tokensMax: 1000,
  tokenLifeMsMax: 10 * 365 * DAY,
  scopesMax: 100,
  scopeCharsMax: 300,
  /** How long a process caches the ledger's tokens. */
  tokenCacheMs: 1 * SECOND,
  tokenUseEveryMs: 30 * SECOND,
  /** Rows that one step of the pruner deletes, and how often retention is a directive on record. */
  pruneRowsMax: 1000,
  retentionRecordMs: 1 * HOUR,
  /** The shortest time that a tenant sleeps before it is woken only to be pruned. */
  pruneEveryMs: 1 * MINUTE,
  /** How long a piece of long work runs before other work gets a turn of the event loop. */
  sliceMs: 5,
  /** If the last disk sync was faster than this, the next one blocks the event loop instead of using a thread. */
  inlineSyncMs: 2,
  /** Rows that one page of a list visits when few of them match the filter. */
  listVisitMax: 3000,
  /** Attempts that one page of logs visits. They cost more than jobs, because their output is long. */
  searchVisitMax: 1000,
  /** The same for a caller without full access: each attempt is masked before it is searched. */
  maskedSearchRowsMax: 200,
  /** Characters of an error, a stderr or a result that a search looks through. */
  searchCharsMax: 65_536,
  /** How far a clock may be set back before lists by time miss jobs of that moment. */
  clockSetBackMs: 10 * SECOND,
  /** The latest attempts that one summary reads. */
  statisticsRowsMax: 100_000,
  /** The largest SQLite file that a self-check reads, because it has to be short. */
  quickCheckBytesMax: 64 * MIB,
  /** How often indexes are compared with their tables, and how many findings are kept. */
  indexCheckMs: 24 * 60 * 60 * 1000,
  indexProblemsMax: 20,
  /** The delay after a check that couldn't run, and the pause after a check, as a multiple of its duration. */
  indexCheckRetryMs: 60 * 1000,
  indexCheckRestFactor: 10,
  indexCheckRestMsMax: 60 * 1000,
  busyTimeoutMs: 5 * SECOND,
  /** Threads that read SQLite files, for all ledgers together, and their priority on Linux. */
  readerThreadsMax: 2,
  readerNiceness: 5,
  /** Threads that were abandoned because a read took too long, and that still run. */
  readerThreadsRetiredMax: 2,
  /** How long one read may take, and how many may wait for a thread. */
  readMs: 15 * SECOND,
  readsWaitingMax: 10_000,
  /** How long an idle reader thread stays; the files and statements that each one keeps open. */
  readerIdleMs: 30 * SECOND,
  readerFilesMax: 16,
  readerStatementsMax: 256,
  /** Keys of one read by key in the main thread. A read with more keys runs in a reader thread. */
  inlineKeysMax: 4,
  /** The length of SQLite's journal at which a thread checkpoints it, and at which a commit does. */
  journalPages: 4000,
  journalPagesMax: 16_000,
  /** Commits in a row without checking the length of the journal. */
  journalCommitsUncheckedMax: 8,
  /** How long the idle checkpoint thread stays, and the delay after it failed. */
  checkpointIdleMs: 10 * SECOND,
  checkpointRetryMs: 1 * MINUTE,
  breakerTransitionsRetentionMs: 90 * DAY,
  /** The default limits for all processes of one attempt in a tenant together. */
  tenantPluginMemoryBytes: 1 * GIB,
  tenantPluginProcesses: 128,
  tenantPluginFileBytes: 1 * GIB,
  tenantSlugCharsMax: 40,
  tenantTitleCharsMax: 200,
  /** How long other hosts have to leave the ledger of a tenant that is being deleted. */
  tenantLeaveMs: 60 * SECOND,
  /** How long an idle tenant stays open after the last request. */
  tenantIdleMs: 10 * SECOND,
  /** How long an idle tenant stays open if it was opened only for due work. */
  tenantLingerMs: 1 * SECOND,
  /** How often an open tenant is checked for sleep. Work that is due sooner than this keeps it awake. */
  tenantSleepCheckMs: 500,
  tenantDueSoonMs: 2 * SECOND,
  /** The shortest time between two checks for due tenants. */
  tenantDueCheckMs: 100,
  /** Tenants that wake and that are awake at the same time: each has open files or connections. */
  tenantsWakingMax: 4,
  tenantsAwakeMax: { sqlite: 256, postgres: 24 },
  tenantConnectionsMax: 2,
  /** Ledgers whose claims a pause awaits in one transaction, which takes a lock for each. */
  claimLocksMax: 64,
  /** How long a tenant with work stays awake while other tenants wait to be woken. */
  tenantAwakeTurnMs: 5 * SECOND,
  /** How long a request waits for a tenant to wake, and the delays before a failed one is woken again. */
  tenantWakeMs: 10 * SECOND,
  tenantRetryMs: 1 * SECOND,
  tenantRetryMsMax: 5 * MINUTE,
  /** How often an idle tenant is woken to delete rows past their retention. */
  tenantPruneMs: 1 * DAY,
  /** Up to this `queue_length` the queue is counted for each call, and for longer ones at intervals. */
  queueCountedMax: 1000,
  /** How often the usage of a tenant at one of its limits is counted, and how often its storage. */
  tenantCountMs: 100,
  tenantStorageMs: 5 * SECOND,
  /** How long a slot is reserved for the ledger whose turn it is. */
  ledgerTurnMs: 1 * SECOND,
} as const;
