import { HOUR, KIB, MIB, MINUTE, SECOND } from './units.ts';

/** Plugins, packages and configuration: processes, output, files, secrets. */
export const pluginLimits = {
  /** Protocol output of one plugin process; more is a failure that keeps the prefix. */
  stdoutBytesMax: 10 * MIB,
  /** Diagnostics of one plugin process; the rest is dropped and the cut is noted. */
  stderrBytesMax: 64 * KIB,
  /** One row of plugin_state, and so one snapshot that a plugin emits. */
  stateBytesMax: 1 * MIB,
  /** Events that one attempt may emit. */
  eventsPerAttemptMax: 1000,
  /** Copies of an attempt's result in its events, together; if they would take more, none is made. */
  resultCopiesBytesMax: 1 * MIB,
  /** How long a plugin that failed may ask to be left alone. */
  retryAfterMsMax: 24 * HOUR,
  /** From SIGTERM to SIGKILL of a plugin's process group. */
  killGraceMs: 5 * SECOND,
  /** From a plugin's exit until its still open output is cut off. */
  drainMs: 500,
  /** How long a prewarmed process may wait for its request, and then, while it runs, its place for another. */
  prewarmAgeMs: 10 * MINUTE,
  prewarmRefillMs: 20,
  prewarmProcessesMax: 32,
  /** Answers that are waited for within this time of each other are soon waited for again. */
  standbyMs: 1 * MINUTE,
  /** From the first process that does not stay alive until its request; doubled for each more. */
  prewarmBackoffMs: 1 * SECOND,
  prewarmBackoffMsMax: 5 * MINUTE,
  /** How long the spawner may take to say hello, and to end when told to. */
  spawnerTimeoutMs: 10 * SECOND,
  /** Between two tries to start a spawner that does not come up; doubled for each more. */
  spawnerRestartMs: 100,
  spawnerRestartMsMax: 5 * SECOND,
  timeoutMs: { poll: 60 * SECOND, handle: 120 * SECOND, health: 10 * SECOND, init: 30 * SECOND },
  timeoutDefaultMs: 60 * SECOND,
  /** Less is used by any interpreter before it has read its program. */
  pluginMemoryBytesMin: 4 * MIB,
  pluginProcessesMax: 4096,
  /** A secret for plugins: shorter ones would be found in anything that a plugin prints. */
  credentialCharsMin: 4,
  credentialBytesMax: 64 * KIB,
  credentialProviderCharsMax: 100,
  /** The size of the private /tmp of a confined process, which is memory. */
  isolatedTmpBytesMax: 256 * MIB,
  /** Paths that a configuration may list for a confined plugin, each for reading and writing. */
  isolationPathsMax: 16,
  /** Profiles of confined processes that are kept ready. */
  isolationProfilesMax: 1000,
  /** User ids of confined processes, where the service may choose them. */
  isolatedUsers: { first: 0x4000_0000, count: 0x1000_0000 },
  /** The same in a container that maps 16 bits of ids. */
  isolatedUsersInContainer: { first: 20_000, count: 40_000 },
  /** Size of a configuration file or plugin manifest. */
  configBytesMax: 512 * KIB,
  /** Number of files in one configuration. */
  configFilesMax: 256,
  /** Values in one such file, with aliases followed, and the aliases themselves. */
  configValuesMax: 100_000,
  configAliasesMax: 1000,
  /** A backup of the configuration: its files, all of them and one of them. */
  archiveEntriesMax: 2048,
  archiveBytesMax: 50 * MIB,
  archiveFileBytesMax: 10 * MIB,
  /** Problems of one file that are listed; who has more starts with these. */
  problemsMax: 100,
  manifestBytesMax: 256 * KIB,
  /** Recorded configurations whose secrets one transaction masks. */
  snapshotsMaskedAtOnce: 100,
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
  /** How far and how wide a plugin root is searched for manifests. */
  rootDepthMax: 8,
  rootDirectoriesMax: 10_000,
  /** Values whose change a plan or the history of configurations lists; more are counted. */
  planChangesMax: 50,
  snapshotChangesMax: 20,
} as const;
