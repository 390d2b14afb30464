import { realpathSync } from 'node:fs';
import { hostname } from 'node:os';
import { fromTimestamp, toTimestamp, type Timestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import type { Config } from '../../config/config.ts';
import { digestConfigFiles, lastWritten, rehashFiles } from '../../config/integrity.ts';
import { type KeyChange, compareKeys } from '../../config/effective.ts';
import { readLockHolder } from '../../ledger/sqlite/instance-lock.ts';
import type { ProcessRow } from '../../job/types.ts';
import type { Check } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';
import { parseStoredJson } from '../../base/json.ts';
import { withInstallations, type InstalledPackage } from '../../config/installed.ts';
import { readConfig } from '../../config/load.ts';
import type { ConfigSnapshot } from '../../config/snapshot.sql.ts';
import type { LedgerSubset } from '../../ledger/ledger.ts';
import { readProvides } from '../../package/package.ts';
import type { InstallationRow } from '../../package/types.ts';

/** Finds a service on this host that uses other configuration files, or files that changed since. */
export const findConfigDifference: Check = async (context) => {
  const { ledger, config, now, isRoot } = context;
  if (!isRoot) return [];
  const live = (await ledger.processes.list()).filter(
    (row) => isOnThisHost(row) && isLive(row, config, now),
  );
  const [own] = live.filter(
    ({ configFile }) => configFile !== null && isSameFile(configFile, config),
  );
  if (own !== undefined) {
    if (own.configDigest === digestConfigFiles(rehashFiles(config.files))) return [];
    const changes = (await compareActiveConfig(config.file, ledger, own.id))?.changes;
    return [describeChanged(own, config, changes)];
  }
  // Several services may share a PostgreSQL database; a SQLite file has one.
  if (ledger.kind !== 'sqlite') return [];
  return [
    ...live.flatMap((row) => describeElsewhere(row, config)),
    ...findSilentHolder(live, config),
  ];
};

function isOnThisHost({ host }: ProcessRow): boolean {
  return host === hostname();
}

function isLive({ lastHeartbeatAt }: ProcessRow, { service }: Config, now: Timestamp): boolean {
  return fromTimestamp(now) - fromTimestamp(lastHeartbeatAt) < service.reapAfterMs;
}

function isSameFile(file: string, config: Config): boolean {
  if (file === config.file) return true;
  try {
    return realpathSync(file) === realpathSync(config.file);
  } catch {
    return false;
  }
}

function describeChanged(
  { pid, startedAt }: ProcessRow,
  config: Config,
  changes: readonly KeyChange[] | undefined,
): LiveFinding {
  const writtenMs = lastWritten(config.files);
  const since = writtenMs === undefined ? startedAt : toTimestamp(writtenMs);
  const { changedKeysMax } = limits.checks;
  const shown = (changes ?? []).slice(0, changedKeysMax);
  const keys = shown.map(
    ({ key, before, after }) => `${key}: ${before ?? 'not set'} → ${after ?? 'not set'}`,
  );
  const more = (changes ?? []).length - shown.length;
  const evidence =
    changes === undefined
      ? "the files have errors, so their keys can't be compared"
      : keys.length === 0
        ? 'only comments, secrets or environment files differ'
        : `${keys.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
  return {
    kind: 'config_changed',
    key: config.file,
    severity: 'warning',
    category: 'integrity',
    message: `The configuration on disk differs from the one that process ${pid} uses.`,
    evidence,
    fix: 'Check the change, then reload it.',
    commands: ['ductile system reload', 'ductile system reload --dry-run', 'ductile config diff'],
    since,
    count: Math.max(1, changes?.length ?? 1),
    detail: { pid, keys: shown.map(({ key }) => key) },
  };
}

function describeElsewhere(row: ProcessRow, config: Config): LiveFinding[] {
  const { pid, configFile, startedAt } = row;
  if (configFile === null) return [];
  return [
    {
      kind: 'lock_held',
      key: String(pid),
      severity: 'warning',
      category: 'service',
      impact: 'everything',
      message:
        `Process ${pid} holds this database with another configuration: ${configFile}, ` +
        `not ${config.file}.`,
      evidence: `it started at ${startedAt} and is alive; its heartbeat names ${configFile}`,
      fix: `Stop it to use ${config.file}, or use its configuration.`,
      commands: [`kill ${pid}`, `ductile doctor --config ${configFile}`],
      since: startedAt,
      detail: { pid, config: configFile },
    },
  ];
}

/** Finds a process that holds the lock and sends no heartbeat: it hangs, or it is stopped. */
function findSilentHolder(live: readonly ProcessRow[], { state }: Config): LiveFinding[] {
  const holder = readLockHolder(state.dir);
  if (holder === undefined || live.length > 0 || holder.pid === process.pid) return [];
  if (!isAlive(holder.pid)) return [];
  const { pid, configFile, startedAt } = holder;
  const age = startedAt === null ? Infinity : Date.now() - fromTimestamp(startedAt);
  const file = configFile ?? 'an unknown configuration';
  // A process that starts, or a command that writes without a service, has no heartbeat yet.
  if (age < limits.incident.overdueMs) return [];
  return [
    {
      kind: 'lock_held',
      key: String(pid),
      severity: 'error',
      category: 'service',
      impact: 'everything',
      message: `Process ${pid} holds the lock of this database and sends no heartbeat.`,
      evidence: `it took the lock at ${startedAt ?? 'an unknown time'}, with ${file}`,
      fix: 'Stop the process if it hangs. Then start the service.',
      commands: [`kill ${pid}`, 'ductile system start'],
      since: startedAt,
      detail: { pid, config: configFile },
    },
  ];
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user is alive, too.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** The configuration that a process loaded last, and the differences of the files on disk. */
export interface ActiveComparison {
  readonly snapshot: ConfigSnapshot;
  /** `before` is the active value. Secrets are masked. */
  readonly changes: readonly KeyChange[];
}

/** The most snapshots that are searched for the one of a process. */
const SNAPSHOTS_READ = 20;

/** Compares the files with the loaded configuration. Undefined if either can't be read. */
export async function compareActiveConfig(
  file: string,
  ledger: LedgerSubset<'installations.list' | 'snapshots.list'>,
  processId?: string,
): Promise<ActiveComparison | undefined> {
  const snapshots = await ledger.snapshots.list(SNAPSHOTS_READ);
  const snapshot = snapshots.find((one) => processId === undefined || one.processId === processId);
  const { config } = readConfig({ given: file });
  if (snapshot === undefined || config === undefined) return undefined;
  // The recorded configuration includes the parts of packages.
  const installed = toInstalledPackages(await ledger.installations.list({}));
  const { redacted } = addPackages(config, installed);
  return { snapshot, changes: compareKeys(parseStoredJson(snapshot.config), redacted) };
}

/** Adds the parts of packages. If one no longer fits the files, none is added. */
function addPackages(config: Config, installed: readonly InstalledPackage[]): Config {
  try {
    return withInstallations(config, installed);
  } catch {
    return config;
  }
}

/** Returns the active packages, with the parts that they add to a configuration. */
export function toInstalledPackages(rows: readonly InstallationRow[]): InstalledPackage[] {
  return rows
    .filter(({ status, lastError }) => status !== 'disabled' && lastError === null)
    .map(({ id, slug, version, provisioned }) => {
      return { id, slug, version, provides: readProvides(provisioned) };
    });
}
