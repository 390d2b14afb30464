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
  /** How long a prewarmed process waits for its request. */
  prewarmAgeMs: 10 * MINUTE,
  /** The delay before a prewarmed process is replaced. */
  prewarmRefillMs: 20,
  /** The prewarmed processes of one service process, and the highest value of `plugins.<name>.prewarm`. */
  prewarmProcessesMax: 32,
  /** After two synchronous requests within this time, another one is expected soon. */
  standbyMs: 1 * MINUTE,
  /** The first backoff after a prewarmed process died before its request; it doubles. */
  prewarmBackoffMs: 1 * SECOND,
  /** The longest backoff after a prewarmed process died before its request. */
  prewarmBackoffMsMax: 5 * MINUTE,
  /** How long the spawner may take to start, and to stop when asked. */
  spawnerTimeoutMs: 10 * SECOND,
  /** The first backoff between two attempts to start the spawner; it doubles. */
  spawnerRestartMs: 100,
  /** The longest backoff between two attempts to start the spawner. */
  spawnerRestartMsMax: 5 * SECOND,
  /** The timeout of one attempt, by command. Setting: `plugins.<name>.timeouts`. */
  timeoutMs: { poll: 60 * SECOND, handle: 120 * SECOND, health: 10 * SECOND, init: 30 * SECOND },
  /** The timeout of one attempt of all other commands. Setting: `plugins.<name>.timeouts`. */
  timeoutDefaultMs: 60 * SECOND,
  /** The smallest memory limit. Every interpreter uses more before it has read its program. */
  pluginMemoryBytesMin: 4 * MIB,
  /** The highest value of `limits.processes`. */
  pluginProcessesMax: 4096,
  /** The shortest credential. A shorter one would be masked in unrelated output of plugins. */
  credentialCharsMin: 4,
  /** The value of a credential. */
  credentialBytesMax: 64 * KIB,
  /** The name of a credential’s provider. */
  credentialProviderCharsMax: 100,
  /** The size of the private /tmp of a confined process, which is memory. */
  isolatedTmpBytesMax: 256 * MIB,
  /** Paths that a configuration may list for a confined plugin, each for reading and writing. */
  isolationPathsMax: 16,
  /** Cached profiles of confined processes. */
  isolationProfilesMax: 1000,
  /** User ids of confined processes if the service may choose them. */
  isolatedUsers: {
    /** The first user id of confined processes if the service may choose them. */
    first: 0x4000_0000,
    /** How many user ids confined processes can have. */
    count: 0x1000_0000,
  },
  /** The same in a container that maps 16 bits of ids. */
  isolatedUsersInContainer: {
    /** The first user id in a container that maps 16 bits of ids. */
    first: 20_000,
    /** How many user ids confined processes can have in such a container. */
    count: 40_000,
  },
  /** Size of a configuration file or plugin manifest. */
  configBytesMax: 512 * KIB,
  /** Number of files in one configuration. */
  configFilesMax: 256,
  /** Values in one configuration file, with its aliases expanded. */
  configValuesMax: 100_000,
  /** Aliases in one configuration file. */
  configAliasesMax: 1000,
  /** The files in a backup of the configuration. */
  archiveEntriesMax: 2048,
  /** The total size of a backup of the configuration. */
  archiveBytesMax: 50 * MIB,
  /** The size of one file in a backup of the configuration. */
  archiveFileBytesMax: 10 * MIB,
  /** Problems of one file that are listed. */
  problemsMax: 100,
  /** The manifest of a plugin. */
  manifestBytesMax: 256 * KIB,
  /** Configuration snapshots whose secrets one transaction masks. */
  snapshotsMaskedAtOnce: 100,
  /** Packages in one root. */
  packagesMax: 1000,
  /** The files of a package. */
  packageFilesMax: 100,
  /** The size of one file of a package. */
  packageFileBytesMax: 256 * KIB,
  /** The depth of the folders of a package. */
  packageDepthMax: 4,
  /** The configuration of an installation. */
  packageConfigBytesMax: 64 * KIB,
  /** The schema of a command’s payload. */
  inputSchemaCharsMax: 64 * KIB,
  /** How long validating a payload may take. */
  inputCheckMs: 200,
  /** How long compiling the schema of a payload may take. */
  inputCompileMs: 2000,
  /** How deep a plugin root is searched for manifests. */
  rootDepthMax: 8,
  /** The directories of a plugin root that are searched for manifests. */
  rootDirectoriesMax: 10_000,
  /** Changed values that a plan lists. Further ones are counted. */
  planChangesMax: 50,
  /** Changed values that the configuration history lists. Further ones are counted. */
  snapshotChangesMax: 20,
} as const;
