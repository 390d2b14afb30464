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
  /** A dedupe key: it is part of an index, and PostgreSQL's rows there are short. */
  dedupeKeyBytesMax: 1 * KIB,
  /** The type of an event or signal. */
  eventTypeBytesMax: 255,
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
  /** How long a prewarmed process may wait for its request. */
  prewarmAgeMs: 10 * MINUTE,
  prewarmProcessesMax: 32,
  /** From the first process that does not stay alive until its request; doubled for each more. */
  prewarmBackoffMs: 1 * SECOND,
  prewarmBackoffMsMax: 5 * MINUTE,
  /** How long the spawner may take to say hello, and to end when told to. */
  spawnerPatienceMs: 10 * SECOND,
  /** Between two tries to start a spawner that does not come up; doubled for each more. */
  spawnerRestartMs: 100,
  spawnerRestartMsMax: 5 * SECOND,
  heartbeatMs: 5 * SECOND,
  reapAfterMs: 30 * SECOND,
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
  jobQueueRetentionMs: 30 * DAY,
  jobLogRetentionMs: 30 * DAY,
  signalRetentionMs: 30 * DAY,
  factRetentionMs: 365 * DAY,
  contextRetentionMs: 30 * DAY,
  /** Rows that one step of the pruner deletes. */
  pruneRowsMax: 1000,
  pruneEveryMs: 1 * MINUTE,
  /** How long a queued job waits for a process that knows its plugin before it is dead. */
  runnerGraceMs: 1 * HOUR,
  /** Rows of one page of a list. */
  pageRowsMax: 1000,
  busyTimeoutMs: 5 * SECOND,
  /** The longest wait that is asked of a timer; Node's own overflow at 24.8 days and fire at once. */
  timerMsMax: 24 * DAY,
  /** One configuration file or plugin manifest. */
  configBytesMax: 4 * MIB,
  manifestBytesMax: 256 * KIB,
  /** How far and how wide a plugin root is searched for manifests. */
  rootDepthMax: 8,
  rootDirectoriesMax: 10_000,
  /** Log lines that wait for a slow reader; what comes on top is dropped. */
  logBufferBytesMax: 16 * MIB,
  /** The body of one HTTP request; a payload at its limit fits in. */
  requestBytesMax: 2 * MIB,
  /** How long a request under way may hold up the end of its listener. */
  httpCloseMs: 1 * SECOND,
  /** How long a health check waits for the database before it answers without it. */
  healthMs: 2 * SECOND,
  /** How long a caller may wait for the end of the job that it started. */
  jobWaitMs: 5 * MINUTE,
  /** The longest path of a Unix socket that every platform takes. */
  socketPathBytesMax: 100,
} as const;
