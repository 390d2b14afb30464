import { DAY, GIB, HOUR, MIB, MINUTE, SECOND } from '../quantity.ts';

/** The ledger and tenants: the journal of SQLite, retention, tokens, open tenants. */
export const ledgerLimits = {
  /** How often a start is repeated after the database ended its connection. */
  startRetriesMax: 5,
  /** How long finished jobs and runs are kept. Setting: `service.job_queue_retention`. */
  jobQueueRetentionMs: 30 * DAY,
  /** How long attempts and their output are kept. Setting: `service.job_log_retention`. */
  jobLogRetentionMs: 30 * DAY,
  /** How long signals, webhook deliveries and closed incidents are kept. Setting: `service.signal_retention`. */
  signalRetentionMs: 30 * DAY,
  /** How long facts are kept, except the latest of each plugin. Setting: `service.fact_retention`. */
  factRetentionMs: 365 * DAY,
  /** How long a context is kept that no job refers to. Setting: `service.context_retention`. */
  contextRetentionMs: 30 * DAY,
  /** How long directives are kept. */
  directiveRetentionMs: 365 * DAY,
  /** How long an idempotency key returns the first response. */
  idempotencyRetentionMs: 24 * HOUR,
  /** How long a revoked or expired token can still be looked up in the ledger. */
  tokenRetentionMs: 90 * DAY,
  /** Valid tokens in a ledger. */
  tokensMax: 1000,
  /** The longest life of a token. */
  tokenLifeMsMax: 10 * 365 * DAY,
  /** The scopes of one token. */
  scopesMax: 100,
  /** The length of one scope. */
  scopeCharsMax: 300,
  /** How long a process caches the ledger's tokens. */
  tokenCacheMs: 1 * SECOND,
  /** How often the last use of tokens is written. */
  tokenUseEveryMs: 30 * SECOND,
  /** Rows that one step of the pruner deletes. */
  pruneRowsMax: 1000,
  /** How often retention is a directive on record. */
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
  /** How often indexes are compared with their tables. */
  indexCheckMs: 24 * 60 * 60 * 1000,
  /** The findings of one comparison that are kept. */
  indexProblemsMax: 20,
  /** The delay after a comparison that couldn’t run. */
  indexCheckRetryMs: 60 * 1000,
  /** The pause after a comparison, as a multiple of its duration. */
  indexCheckRestFactor: 10,
  /** The longest pause after a comparison. */
  indexCheckRestMsMax: 60 * 1000,
  /** How long SQLite waits for a lock on its file. */
  busyTimeoutMs: 5 * SECOND,
  /** Threads that read SQLite files, for all ledgers together. */
  readerThreadsMax: 2,
  /** The niceness of reader threads on Linux. */
  readerNiceness: 5,
  /** Threads that were abandoned because a read took too long, and that still run. */
  readerThreadsRetiredMax: 2,
  /** How long one read may take. */
  readMs: 15 * SECOND,
  /** The reads that may wait for a thread. */
  readsWaitingMax: 10_000,
  /** How long an idle reader thread stays. */
  readerIdleMs: 30 * SECOND,
  /** The files that each reader thread keeps open. */
  readerFilesMax: 16,
  /** The statements that each reader thread keeps prepared. */
  readerStatementsMax: 256,
  /** Keys of one read by key in the main thread. A read with more keys runs in a reader thread. */
  inlineKeysMax: 4,
  /** The length of SQLite’s journal at which a thread checkpoints it. */
  journalPages: 4000,
  /** The length of SQLite’s journal at which a commit checkpoints it. */
  journalPagesMax: 16_000,
  /** Commits in a row without checking the length of the journal. */
  journalCommitsUncheckedMax: 8,
  /** How long the idle checkpoint thread stays. */
  checkpointIdleMs: 10 * SECOND,
  /** The delay after a checkpoint failed. */
  checkpointRetryMs: 1 * MINUTE,
  /** How long changes of circuit breakers are kept. Setting: `service.breaker_transitions_retention`. */
  breakerTransitionsRetentionMs: 90 * DAY,
  /** The memory of all processes of one attempt in a tenant together. Setting: `tenants.limits.memory`. */
  tenantPluginMemoryBytes: 1 * GIB,
  /** The processes of one attempt in a tenant. Setting: `tenants.limits.processes`. */
  tenantPluginProcesses: 128,
  /** The size of each file that a plugin of a tenant writes. Setting: `tenants.limits.file_size`. */
  tenantPluginFileBytes: 1 * GIB,
  /** The name of a tenant. */
  tenantSlugCharsMax: 40,
  /** The title of a tenant. */
  tenantTitleCharsMax: 200,
  /** How long other hosts have to leave the ledger of a tenant that is being deleted. */
  tenantLeaveMs: 60 * SECOND,
  /** How long an idle tenant stays open after the last request. Setting: `tenants.idle`. */
  tenantIdleMs: 10 * SECOND,
  /** How long an idle tenant stays open if it was opened only for due work. */
  tenantLingerMs: 1 * SECOND,
  /** How often an open tenant is checked for sleep. */
  tenantSleepCheckMs: 500,
  /** How soon work has to be due to keep its tenant awake. */
  tenantDueSoonMs: 2 * SECOND,
  /** The shortest time between two checks for due tenants. */
  tenantDueCheckMs: 100,
  /** Tenants that wake at the same time. */
  tenantsWakingMax: 4,
  /** Tenants that are awake at the same time. Each has open files or connections. */
  tenantsAwakeMax: {
    /** Tenants that are awake at the same time on SQLite. Each has open files. */
    sqlite: 256,
    /** Tenants that are awake at the same time on PostgreSQL. Each has connections. */
    postgres: 24,
  },
  /** The PostgreSQL connections of one open tenant. */
  tenantConnectionsMax: 2,
  /** Ledgers whose claims a pause awaits in one transaction, which takes a lock for each. */
  claimLocksMax: 64,
  /** How long a tenant with work stays awake while other tenants wait to be woken. */
  tenantAwakeTurnMs: 5 * SECOND,
  /** How long a request waits for a tenant to wake. */
  tenantWakeMs: 10 * SECOND,
  /** The first delay before a tenant that failed to wake is woken again. */
  tenantRetryMs: 1 * SECOND,
  /** The longest delay before a tenant that failed to wake is woken again. */
  tenantRetryMsMax: 5 * MINUTE,
  /** How often an idle tenant is woken to delete rows past their retention. */
  tenantPruneMs: 1 * DAY,
  /** Up to this `queue_length` the queue is counted for each call, and for longer ones at intervals. */
  queueCountedMax: 1000,
  /** How often the usage of a tenant at one of its limits is counted. */
  tenantCountMs: 100,
  /** How often the storage of a tenant is measured. */
  tenantStorageMs: 5 * SECOND,
  /** How long a slot is reserved for the ledger whose turn it is. */
  ledgerTurnMs: 1 * SECOND,
} as const;
