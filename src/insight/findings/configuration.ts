import { realpathSync } from 'node:fs';
import { hostname } from 'node:os';
import { fromTimestamp, toTimestamp, type Timestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import type { Config } from '../../config/config.ts';
import { digestConfigFiles, lastWritten, rehashFiles } from '../../config/integrity.ts';
import { type KeyChange, compareKeys } from '../../config/effective.ts';
import { readLockHolder } from '../../ledger/sqlite/instance-lock.ts';
import type { ProcessRow } from '../../job/types.ts';
import { defineFinding, shareReading } from '../define-finding.service.ts';
import { parseStoredJson } from '../../base/json.ts';
import { withInstallations, type InstalledPackage } from '../../config/installed.ts';
import { readConfig } from '../../config/load.ts';
import type { ConfigSnapshot } from '../../config/snapshot.sql.ts';
import type { LedgerSubset } from '../../ledger/ledger.ts';
import { readProvides } from '../../package/package.ts';
import type { InstallationRow } from '../../package/types.ts';

export const configChanged = defineFinding({
  kind: 'config_changed',
  condition: 'The configuration files differ from those that the service has loaded.',
  rank: { severity: 'warning', category: 'integrity' },
  fix: 'Check the change, then reload it.',
  command: 'ductile config diff',
  async find(context) {
    const { ledger, config } = context;
    const { own } = await readServices(context);
    if (own === undefined) return [];
    if (own.configDigest === digestConfigFiles(rehashFiles(config.files))) return [];
    const changes = (await compareActiveConfig(config.file, ledger, own.id))?.changes;
    return [{ process: own, config, changes }];
  },
  describe({ process: { pid, startedAt }, config, changes }) {
    const writtenMs = lastWritten(config.files);
    const shown = (changes ?? []).slice(0, limits.checks.changedKeysMax);
    return {
      key: config.file,
      message: `The configuration on disk differs from the one that process ${pid} uses.`,
      evidence: describeChanges(shown, changes),
      commands: ['ductile system reload', 'ductile system reload --dry-run', 'ductile config diff'],
      since: writtenMs === undefined ? startedAt : toTimestamp(writtenMs),
      count: Math.max(1, changes?.length ?? 1),
      detail: { pid, keys: shown.map(({ key }) => key) },
    };
  },
});

function describeChanges(
  shown: readonly KeyChange[],
  changes: readonly KeyChange[] | undefined,
): string {
  if (changes === undefined) return "the files have errors, so their keys can't be compared";
  if (changes.length === 0) return 'only comments, secrets or environment files differ';
  const keys = shown.map(
    ({ key, before, after }) => `${key}: ${before ?? 'not set'} → ${after ?? 'not set'}`,
  );
  const more = changes.length - shown.length;
  return `${keys.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

interface LockHolder {
  readonly pid: number;
  readonly configFile: string | null;
  readonly startedAt: Timestamp | null;
  /** The configuration that should be used. Undefined if the process sends no heartbeat. */
  readonly wantedFile?: string | undefined;
}

export const lockHeld = defineFinding<LockHolder>({
  kind: 'lock_held',
  condition: 'Another process has the database, with another configuration or without a heartbeat.',
  rank: { severity: 'error', category: 'service', impact: 'everything' },
  fix: 'Stop the process if it hangs. Then start the service.',
  command: 'ductile system status',
  async find(context) {
    const { ledger, config } = context;
    const { own, live } = await readServices(context);
    // Several services may share a PostgreSQL database; a SQLite file has one.
    if (!context.isRoot || own !== undefined || ledger.kind !== 'sqlite') return [];
    return [
      ...live
        .filter(({ configFile }) => configFile !== null)
        .map((row) => ({ ...row, wantedFile: config.file })),
      ...(live.length > 0 ? [] : findSilentHolder(config)),
    ];
  },
  describe({ pid, configFile, startedAt, wantedFile }) {
    const common = { key: String(pid), since: startedAt, detail: { pid, config: configFile } };
    if (wantedFile === undefined) {
      const file = configFile ?? 'an unknown configuration';
      return {
        ...common,
        message: `Process ${pid} holds the lock of this database and sends no heartbeat.`,
        evidence: `it took the lock at ${startedAt ?? 'an unknown time'}, with ${file}`,
        commands: [`kill ${pid}`, 'ductile system start'],
      };
    }
    return {
      ...common,
      severity: 'warning',
      message:
        `Process ${pid} holds this database with another configuration: ${configFile}, ` +
        `not ${wantedFile}.`,
      evidence: `it started at ${startedAt} and is alive; its heartbeat names ${configFile}`,
      fix: `Stop it to use ${wantedFile}, or use its configuration.`,
      commands: [`kill ${pid}`, `ductile doctor --config ${configFile}`],
    };
  },
});

/** Reads the services on this host that are alive, and the one with this configuration. */
const readServices = shareReading(async ({ ledger, config, now, isRoot }) => {
  const rows = isRoot ? await ledger.processes.list() : [];
  const live = rows.filter((row) => row.host === hostname() && isLive(row, config, now));
  const own = live.find(({ configFile }) => configFile !== null && isSameFile(configFile, config));
  return { live, own };
});

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

/** Finds a process that holds the lock and sends no heartbeat: it hangs, or it is stopped. */
function findSilentHolder({ state }: Config): LockHolder[] {
  const holder = readLockHolder(state.dir);
  if (holder === undefined || holder.pid === process.pid || !isAlive(holder.pid)) return [];
  const { pid, configFile, startedAt } = holder;
  const age = startedAt === null ? Infinity : Date.now() - fromTimestamp(startedAt);
  // A process that starts, or a command that writes without a service, has no heartbeat yet.
  return age < limits.incident.overdueMs ? [] : [{ pid, configFile, startedAt }];
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
