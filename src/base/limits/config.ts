import { KIB, MIB } from './units.ts';

/** Configuration, manifests and packages. */
export const configLimits = {
  /** One configuration file or plugin manifest, and the files that a configuration may be made of. */
  configBytesMax: 512 * KIB,
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
