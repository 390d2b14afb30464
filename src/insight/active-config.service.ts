import { parseStoredJson } from '../base/json.ts';
import type { Config } from '../config/config.ts';
import { withInstallations, type InstalledPackage } from '../config/installed.ts';
import { compareKeys, type KeyChange } from '../config/effective.ts';
import { readConfig } from '../config/load.ts';
import type { ConfigSnapshot } from '../config/snapshot-types.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import { readProvides } from '../package/package.ts';

/** The configuration that a process loaded last, and how the files on disk differ from it. */
export interface ActiveComparison {
  readonly snapshot: ConfigSnapshot;
  /** Secrets are masked; before is what is active. */
  readonly changes: readonly KeyChange[];
}

/** Snapshots of several hosts that are looked through for one of a process. */
const SNAPSHOTS_READ = 20;

/** Compares the files with what a process loaded; undefined if they can't be read or nothing was loaded. */
export async function compareActiveConfig(
  file: string,
  ledger: LedgerSubset<'installations.list' | 'snapshots.list'>,
  processId?: string,
): Promise<ActiveComparison | undefined> {
  const snapshots = await ledger.snapshots.list(SNAPSHOTS_READ);
  const snapshot = snapshots.find((one) => processId === undefined || one.processId === processId);
  const { config } = readConfig({ given: file });
  if (snapshot === undefined || config === undefined) return undefined;
  // What is recorded has the parts that packages bring, as long as they fit.
  const rows = await ledger.installations.list({});
  const installed = rows
    .filter(({ status, lastError }) => status !== 'disabled' && lastError === null)
    .map(({ id, slug, version, provisioned }) => {
      return { id, slug, version, provides: readProvides(provisioned) };
    });
  const { redacted } = extend(config, installed);
  return { snapshot, changes: compareKeys(parseStoredJson(snapshot.config), redacted) };
}

/** Without the packages if one of them doesn't fit beside the files any more. */
function extend(config: Config, installed: readonly InstalledPackage[]): Config {
  try {
    return withInstallations(config, installed);
  } catch {
    return config;
  }
}
