import { HOUR, KIB, MIB, MINUTE, SECOND } from '../quantity.ts';

/** Plugins, packages and configuration: processes, output, files, secrets. */
export const pluginLimits = {
  /** Protocol output of one plugin process; more is a failure that keeps the prefix. */
  stdoutBytesMax: 10 * MIB,
  /** Diagnostics of one plugin process; the rest is dropped and the cut is noted. */
  stderrBytesMax: 64 * KIB,
  /** A row of plugin_state, and so a snapshot that a plugin emits. */
  stateBytesMax: 1 * MIB,
  /** Events that one attempt may emit. */
  eventsPerAttemptMax: 1000,
  /** All copies of an attempt's result in its events. If they would take more, none is made. */
  resultCopiesBytesMax: 1 * MIB,
  /** The longest `retry_after` of a plugin that failed. */
  retryAfterMsMax: 24 * HOUR,
  /** From SIGTERM to SIGKILL of a plugin's process group. */
  killGraceMs: 5 * SECOND,
  /** From a plugin's exit until its open output is closed. */
  drainMs: 500,
  /** How long a prewarmed process waits for its request, the delay before it is replaced, and their number. */
  prewarmAgeMs: 10 * MINUTE,
  prewarmRefillMs: 20,
  prewarmProcessesMax: 32,
  /** After two synchronous requests within this time, another one is expected soon. */
  standbyMs: 1 * MINUTE,
  /** The backoff after a prewarmed process died before its request; doubled for each further one. */
  prewarmBackoffMs: 1 * SECOND,
  prewarmBackoffMsMax: 5 * MINUTE,
  /** How long the spawner may take to start, and to stop when asked. */
  spawnerTimeoutMs: 10 * SECOND,
  /** The backoff between two attempts to start the spawner; doubled for each further one. */
  spawnerRestartMs: 100,
  spawnerRestartMsMax: 5 * SECOND,
  timeoutMs: { poll: 60 * SECOND, handle: 120 * SECOND, health: 10 * SECOND, init: 30 * SECOND },
  timeoutDefaultMs: 60 * SECOND,
  /** The smallest memory limit. Every interpreter uses more before it has read its program. */
  pluginMemoryBytesMin: 4 * MIB,
  pluginProcessesMax: 4096,
  /** The shortest credential. A shorter one would be masked in unrelated output of plugins. */
  credentialCharsMin: 4,
  credentialBytesMax: 64 * KIB,
  credentialProviderCharsMax: 100,
  /** The size of the private /tmp of a confined process, which is memory. */
  isolatedTmpBytesMax: 256 * MIB,
  /** Paths that a configuration may list for a confined plugin, each for reading and writing. */
  isolationPathsMax: 16,
  /** Cached profiles of confined processes. */
  isolationProfilesMax: 1000,
  /** User ids of confined processes if the service may choose them. */
  isolatedUsers: { first: 0x4000_0000, count: 0x1000_0000 },
  /** The same in a container that maps 16 bits of ids. */
  isolatedUsersInContainer: { first: 20_000, count: 40_000 },
  /** Size of a configuration file or plugin manifest. */
  configBytesMax: 512 * KIB,
  /** Number of files in one configuration. */
  configFilesMax: 256,
  /** Values in one such file, with its aliases expanded, and the number of aliases. */
  configValuesMax: 100_000,
  configAliasesMax: 1000,
  /** A backup of the configuration: the number of files, the total size and the size of one file. */
  archiveEntriesMax: 2048,
  archiveBytesMax: 50 * MIB,
  archiveFileBytesMax: 10 * MIB,
  /** Problems of one file that are listed. */
  problemsMax: 100,
  manifestBytesMax: 256 * KIB,
  /** Configuration snapshots whose secrets one transaction masks. */
  snapshotsMaskedAtOnce: 100,
  /** Packages in one root; the files of a package, their size and depth; the size of its configuration. */
  packagesMax: 1000,
  packageFilesMax: 100,
  packageFileBytesMax: 256 * KIB,
  packageDepthMax: 4,
  packageConfigBytesMax: 64 * KIB,
  /** The schema of a command's payload, and how long validating and compiling may take. */
  inputSchemaCharsMax: 64 * KIB,
  inputCheckMs: 200,
  inputCompileMs: 2000,
  /** How deep a plugin root is searched for manifests, and in how many directories. */
  rootDepthMax: 8,
  rootDirectoriesMax: 10_000,
  /** Changed values that a plan and the configuration history list. Further ones are counted. */
  planChangesMax: 50,
  snapshotChangesMax: 20,
} as const;
