/** Every limit of the product, named once with its unit. Configuration may lower or raise some. */
const KIB = 1024;
const MIB = 1024 * KIB;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const limits = {
  /** Protocol output of one plugin process; more is a failure that keeps the prefix. */
  stdoutBytesMax: 10 * MIB,
  /** Diagnostics of one plugin process; the rest is dropped and the cut is noted. */
  stderrBytesMax: 64 * KIB,
  /** One row of plugin_state, and so one snapshot that a plugin emits. */
  stateBytesMax: 1 * MIB,
  /** One job's payload as JSON text. */
  payloadBytesMax: 1 * MIB,
  /** All outputs of one block, where no step follows that would have to take them. */
  runOutputBytesMax: 16 * MIB,
  /** Steps that the test of a pipeline plays, and characters of their payloads that it tells of. */
  simulationStepsMax: 1000,
  simulationCharsMax: 4 * MIB,
  /** A dedupe key: it is part of an index, and PostgreSQL's rows there are short. */
  dedupeKeyBytesMax: 1 * KIB,
  /** A dependency key, for the same reason. */
  dependencyKeyCharsMax: 200,
  /** The type of an event or signal; of a posted one also its source and its correlation. */
  eventTypeBytesMax: 255,
  /** What is told about a signal beside its data, and how far in the future it may have happened. */
  signalMetadataBytesMax: 64 * KIB,
  signalsReportedMax: 1000,
  occurredAheadMsMax: 1 * DAY,
  /** The message of one failure; the whole output is in the log. */
  errorCharsMax: 4096,
  /** Levels of nesting in a payload or a response. */
  jsonDepthMax: 64,
  /** Events that one attempt may emit. */
  eventsPerAttemptMax: 1000,
  /** Jobs that one enqueue may carry. */
  enqueueJobsMax: 10_000,
  /** How often a chain of signals may cause the next one before it counts as a loop. */
  hopsMax: 32,
  /** From SIGTERM to SIGKILL of a plugin's process group. */
  killGraceMs: 5 * SECOND,
  /** From a plugin's exit until its still open output is cut off. */
  drainMs: 500,
  /** How long a prewarmed process may wait for its request, and then, while it runs, its place for another. */
  prewarmAgeMs: 10 * MINUTE,
  prewarmRefillMs: 20,
  prewarmProcessesMax: 32,
  /** From the first process that does not stay alive until its request; doubled for each more. */
  prewarmBackoffMs: 1 * SECOND,
  prewarmBackoffMsMax: 5 * MINUTE,
  /** How long the spawner may take to say hello, and to end when told to. */
  spawnerPatienceMs: 10 * SECOND,
  /** Between two tries to start a spawner that does not come up; doubled for each more. */
  spawnerRestartMs: 100,
  spawnerRestartMsMax: 5 * SECOND,
  /** How often a start begins again whose connection the database has ended. */
  startsAgainMax: 5,
  heartbeatMs: 5 * SECOND,
  reapAfterMs: 30 * SECOND,
  /** How long a directive may be under way in a process that does not beat. */
  strangerMs: 1 * HOUR,
  /** How often a directive that is safe to repeat is begun, when processes die over it. */
  directiveAttemptsMax: 3,
  /** Directives that waited and are begun by one look. */
  directivesBegunMax: 20,
  /** What a claim may outlive its own timeout and kill grace by, before others take it. */
  claimSlackMs: 60 * SECOND,
  /** Looking for work without being woken. */
  pollMs: 1 * SECOND,
  shutdownMs: 30 * SECOND,
  /** Crashes of the engine that are charged to one job before it is dead. */
  crashesMax: 10,
  /** Engine crashes in a row that a job must have met to be run under suspicion. */
  suspectAfter: 2,
  attemptsMax: 4,
  backoffBaseMs: 30 * SECOND,
  timeoutMs: { poll: 60 * SECOND, handle: 120 * SECOND, health: 10 * SECOND, init: 30 * SECOND },
  timeoutDefaultMs: 60 * SECOND,
  dedupeTtlMs: 24 * HOUR,
  /** How far from now a caller may go: how long a job is put off or keeps its key, how old it is. */
  delayMsMax: 10 * 365 * DAY,
  /** The longest duration of a configuration: taken from or added to now it is still a date. */
  durationMsMax: 100 * 365 * DAY,
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
  /** A secret for plugins: shorter ones would be found in anything that a plugin prints. */
  credentialCharsMin: 4,
  credentialBytesMax: 64 * KIB,
  credentialProviderCharsMax: 100,
  /** How long a process may act on what it last heard about the ledger's tokens. */
  tokenFreshMs: 1 * SECOND,
  tokenUseEveryMs: 30 * SECOND,
  /** Branches that one process moves on at once, and until it tries again when the database is away. */
  advancedAtOnceMax: 8,
  advanceRetryMs: 1 * SECOND,
  /** Payloads from before a block that are kept for the jobs of its branches. */
  basesMax: 32,
  /** Jobs that one bulk cancel or retry may touch, how many unless told, and at once. */
  bulkJobsMax: 100_000,
  bulkJobsUsual: 10_000,
  bulkStepJobs: 200,
  /** Text of the signals that one step of a replay reads; one is read however large it is. */
  replayStepBytes: 4 * MIB,
  /** Rows that one step of the pruner deletes, how often, and how often retention is looked at. */
  pruneRowsMax: 1000,
  pruneEveryMs: 1 * MINUTE,
  retainEveryMs: 1 * HOUR,
  /** How often a schedule may be due at most, and how far it may look ahead. */
  scheduleMsMin: 100,
  scheduleMsMax: 3650 * DAY,
  /** How late a due time may be met and still not count as missed; at least one tick. */
  scheduleGraceMs: 1 * MINUTE,
  /** Until a schedule is looked at again that could not be fired for a reason that may pass. */
  scheduleRetryMs: 2 * SECOND,
  /** Missed times of one schedule that `catch_up: run_all` makes up for. */
  catchUpJobsMax: 100,
  /** Schedules that are worked on between two turns of the event loop. */
  scheduleSliceMax: 25,
  /** Long work lets others have their turn after as much. */
  sliceMs: 5,
  /** Where the last sync of the disk was quicker than this, the next one is waited for on the spot. */
  syncHereMs: 2,
  /** Rows of one preview of schedules. */
  previewRowsMax: 1000,
  /** How long a queued job waits for a process that knows its plugin before it is dead. */
  runnerGraceMs: 1 * HOUR,
  /** Attempts that one summary looks at, the latest. */
  statisticsRowsMax: 100_000,
  /** A SQLite file up to this size is looked through in a self-check, which has to be short. */
  quickCheckBytesMax: 64 * MIB,
  /** How long a self-check may take before it says what it has found so far. */
  selfcheckMs: 10 * SECOND,
  /** How far a chain of jobs is followed up and down. */
  treeDepthMax: 100,
  /** Rows of one page of a list. */
  pageRowsMax: 1000,
  busyTimeoutMs: 5 * SECOND,
  /** Pages of SQLite's journal from which on a thread folds it in, and from which on a commit does. */
  journalPages: 4000,
  journalPagesNet: 16_000,
  /** Commits in a row after which nobody looks how long it is, at most. */
  journalCommitsUnseen: 8,
  /** How long that thread stays without work, and until it is tried again after it failed. */
  checkpointIdleMs: 10 * SECOND,
  checkpointRetryMs: 1 * MINUTE,
  tenantSlugCharsMax: 40,
  tenantTitleCharsMax: 200,
  /** How long other hosts get to leave the ledger of a tenant that is to be removed. */
  tenantLeaveMs: 60 * SECOND,
  /** The longest wait that is asked of a timer; Node's own overflow at 24.8 days and fire at once. */
  timerMsMax: 24 * DAY,
  /** How often schedules are looked at. */
  tickMs: 60 * SECOND,
  /** Failures in a row that open a breaker, and how long it stays open. */
  breakerThreshold: 3,
  breakerResetAfterMs: 30 * MINUTE,
  breakerTransitionsRetentionMs: 90 * DAY,
  /** Requests that may wait for the end of their job at once. */
  concurrentSyncMax: 10,
  /** A bearer token. */
  tokenCharsMax: 1024,
  /** Wrong tokens that one address may show in this time, and of how many addresses that is kept. */
  wrongTokensMax: 100,
  wrongTokensMs: 1 * MINUTE,
  wrongTokenAddressesMax: 10_000,
  /** One configuration file or plugin manifest, and the files that a configuration may be made of. */
  configBytesMax: 512 * KIB,
  configFilesMax: 256,
  /** Values in one such file, with aliases followed, and the aliases themselves. */
  configValuesMax: 100_000,
  configAliasesMax: 1000,
  /** Free space beside the ledger below which somebody should know. */
  diskFreeBytesMin: 256 * MIB,
  /** A step's name as a caller gives it, and why somebody approved or rejected. */
  stepNameCharsMax: 1000,
  whyCharsMax: 1000,
  /** Rows that are copied or cancelled by one statement, so that others have their turn between. */
  runRowsAtOnce: 500,
  /** A backup of the configuration: its files, all of them and one of them. */
  archiveEntriesMax: 2048,
  archiveBytesMax: 50 * MIB,
  archiveFileBytesMax: 10 * MIB,
  /** Problems of one file that are listed; who has more starts with these. */
  problemsMax: 100,
  manifestBytesMax: 256 * KIB,
  /** Packages: in one root, files of one and how large and deep they are, its installer's words. */
  packagesMax: 1000,
  packageFilesMax: 100,
  packageFileBytesMax: 256 * KIB,
  packageDepthMax: 4,
  packageConfigBytesMax: 64 * KIB,
  /** The schema of one command's payload, and how long a check against it and its compiling may take. */
  inputSchemaCharsMax: 64 * KIB,
  inputCheckMs: 200,
  inputCompileMs: 2000,
  /** Pipelines: how many, how long one is once it is laid flat, and how deep its steps may be nested. */
  pipelinesMax: 1000,
  pipelineNodesMax: 2000,
  pipelineDepthMax: 32,
  /** One condition: its parts, how deep they are nested, and an expression's length and time. */
  conditionPartsMax: 100,
  conditionDepthMax: 16,
  expressionCharsMax: 4 * KIB,
  expressionMs: 100,
  /** How many branches one block may have unless its pipeline says otherwise, and at all. */
  fanoutUsual: 10_000,
  fanoutMax: 1_000_000,
  /** Branches of one block that are begun where its branch arrives; more are left to an advancer. */
  inlineFanoutMax: 100,
  /** Branches that an advancer begins in one transaction, and outputs that it reads at once: so many
   * that others have their turn after a few milliseconds. */
  advanceBatchMax: 100,
  /** Branches of a cancelled run that are ended in one transaction. */
  sweepBatchMax: 250,
  /** The largest payload that a branch with an open wide block keeps in its own row. */
  branchPayloadBytesMax: 4 * KIB,
  /** How long a branch may be claimed without being moved before others take it. */
  branchLeaseMs: 5 * MINUTE,
  /** Tries at moving one branch on that may fail, and what their delay grows from. */
  advancementTriesMax: 5,
  advancementBackoffMs: 1 * SECOND,
  /** Halted branches that the signal of a halted run names. */
  haltsToldMax: 100,
  /** Signals of one type that one look of a waiting branch considers. */
  signalLookMax: 200,
  /** How long a synchronous caller waits for a pipeline that does not say. */
  pipelineTimeoutMs: 30 * SECOND,
  /** All baggage of a chain as JSON text. */
  baggageBytesMax: 1 * MIB,
  /** How far and how wide a plugin root is searched for manifests. */
  rootDepthMax: 8,
  rootDirectoriesMax: 10_000,
  /** Log lines that wait for a slow reader; what comes on top is dropped. */
  logBufferBytesMax: 16 * MIB,
  /** What the core keeps of its own log for whoever asks later. */
  logRingLinesMax: 5000,
  logRingBytesMax: 4 * MIB,
  /** How long a server may take to accept a connection of the command line. */
  connectMs: 10 * SECOND,
  /** How long the completion of a command line may take for what it asks. */
  completionMs: 1 * SECOND,
  /** The body of one HTTP request; a payload at its limit fits in. */
  requestBytesMax: 2 * MIB,
  /** The request line and all headers of one request, and how many headers. */
  httpHeaderBytesMax: 16 * KIB,
  httpHeadersMax: 100,
  httpUrlCharsMax: 8 * KIB,
  /** How long a client may take to send its headers, and its whole request. */
  httpHeadersMs: 10 * SECOND,
  httpRequestMs: 30 * SECOND,
  /** How long a connection may be idle between requests. */
  httpKeepAliveMs: 65 * SECOND,
  /** How long a client may take none of an answer that is ready for it. */
  httpStallMs: 60 * SECOND,
  /** How late a client that is too slow may be noticed. */
  httpCheckMs: 1 * SECOND,
  httpConnectionsMax: 2048,
  httpRequestsPerConnectionMax: 100_000,
  requestIdCharsMax: 128,
  idempotencyKeyCharsMax: 255,
  /** Keys of all objects in one JSON text. */
  jsonKeysMax: 10_000,
  /** Open event streams, of everybody and of one token. */
  eventStreamsMax: 256,
  eventStreamsPerTokenMax: 32,
  /** How often those are told who want to know of events in sums. */
  eventBeatMs: 1 * SECOND,
  /** A sign of life on a stream without events. */
  eventHeartbeatMs: 15 * SECOND,
  /** How often a stream looks for what other hosts wrote. */
  eventLookMs: 1 * SECOND,
  /** How soon it looks again when what comes next is being written. */
  eventSoonMs: 50,
  /** Rows of each kind that one look reads, and their bytes; one row is read however large it is. */
  eventPageRows: 200,
  eventPageBytes: 1 * MIB,
  /** Looks at once, of all streams together. */
  eventReadsMax: 2,
  /** Rows that are counted for the total of a list. */
  countRowsMax: 10_000,
  /** How long a request under way may hold up the end of its listener. */
  httpCloseMs: 1 * SECOND,
  /** How long a health check waits for the database before it answers without it. */
  healthMs: 2 * SECOND,
  /** How long a caller may wait for the end of the job that it started. */
  jobWaitMs: 5 * MINUTE,
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
  /** How long one that has work stays awake when others wait for its place. */
  tenantTurnMs: 5 * SECOND,
  /** How long a visitor waits for one to wake, and until one that did not is tried again. */
  tenantWakeMs: 10 * SECOND,
  tenantRetryMs: 1 * SECOND,
  tenantRetryMsMax: 5 * MINUTE,
  /** How often what is past its retention is deleted in one that has nothing else to do. */
  tenantPruneMs: 1 * DAY,
  /** How often what it uses is counted again while it is at one of its limits, and its bytes. */
  tenantCountMs: 100,
  tenantStorageMs: 5 * SECOND,
  /** How long a place is kept for a ledger whose turn it is. */
  turnMs: 1 * SECOND,
  /** A webhook's id in its address, its title and its description, its template and its instruction. */
  hookIdCharsMax: 64,
  hookPathCharsMax: 200,
  hookTitleCharsMax: 200,
  hookDescriptionCharsMax: 4 * KIB,
  promptTemplateCharsMax: 64 * KIB,
  /** What a template becomes; it is part of a job's payload. */
  promptCharsMax: 1 * MIB,
  /** Parameters that a webhook adds to the command line of its agent, and one of them. */
  cliParametersMax: 100,
  cliParameterCharsMax: 4 * KIB,
  /** The body of one delivery: its payload must fit into a job's. */
  hookBodyBytesMax: 1 * MIB,
  /** Verified deliveries of one webhook in a minute, unless it says otherwise, and at most. */
  hookRateUsual: 600,
  hookRateMax: 600_000,
  /** Deliveries of one source that may fail their verification in a minute. */
  hookFailuresMax: 100,
  /** Refused deliveries of one webhook in a minute that are written down. */
  hookRefusalsKept: 60,
  /** What is kept of the address that a proxy names. */
  hookSourceChars: 100,
  /** What is kept of one header of a delivery. */
  hookHeaderKeptChars: 500,
  /** When a sender is to try again whose target is not there. */
  hookRetryAfterSeconds: 60,
  /** How long a sender may wait for what its delivery comes to, unless told, and at most. */
  hookRespondMs: 10 * SECOND,
  hookRespondMsMax: 1 * MINUTE,
  /** How long a process goes by what it knows of the webhooks that others may change. */
  hookFreshMs: 1 * SECOND,
  /** How long the secret of a webhook may stay good after it was rotated. */
  hookKeepOldMsMax: 30 * DAY,
  /** Webhooks and sources of which it is kept how much they did in the last minute. */
  hookWindowsMax: 10_000,
  /** How long it is remembered that a webhook was sent more than it takes. */
  hookTurnedAwayMs: 10 * MINUTE,
  /** How long a source that delivered well is let in whatever else comes from it. */
  hookProvenMs: 1 * DAY,
  /** Secrets of one webhook that are good at once, and signatures that one delivery may carry. */
  hookSecretsMax: 8,
  hookSignaturesMax: 8,
  /** A header that is verified, and how far from now the time in it may be. */
  hookHeaderCharsMax: 4 * KIB,
  hookToleranceMs: 5 * MINUTE,
  hookToleranceMsMax: 1 * DAY,
  /** The id of a delivery; a longer one is kept as its digest. */
  deliveryIdCharsMax: 255,
  /** What Slack wants to hear back. */
  hookChallengeCharsMax: 1 * KIB,
  /** A pattern for headers, and the steps that it is compiled to. */
  patternCharsMax: 256,
  patternStepsMax: 1000,
  patternDepthMax: 16,
  /** Characters of an answer to an agent: unless it asks for another size, at least and at most. */
  toolAnswerChars: 16_000,
  toolAnswerCharsMin: 1000,
  toolAnswerCharsMax: 400_000,
  /** What is kept of such answers for who wants more of one: of one caller, and of all. */
  toolKeptCharsPerCaller: 16 * MIB,
  toolKeptCharsMax: 64 * MIB,
  /** The name of a tool that every client takes, and what is told of a plugin's own words. */
  toolNameCharsMax: 64,
  toolWordsCharsMax: 400,
  /** How long a tool that runs a command waits for its end; clients give up after a minute. */
  toolWaitMs: 30 * SECOND,
  /** When something is an incident, how often that is looked at, and when what passes is over. */
  incident: { streak: 5, overdueMs: 2 * MINUTE, stalledMs: 5 * MINUTE },
  incidentWatch: { everyMs: 15 * SECOND, renewMs: 1 * MINUTE, quietMs: 1 * HOUR },
  /** The longest path of a Unix socket that every platform takes. */
  socketPathBytesMax: 100,
} as const;
