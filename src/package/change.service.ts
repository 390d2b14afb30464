import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { limits } from '../base/limits.ts';
import { keyText } from '../config/document.ts';
import type { InstalledPackage } from '../config/installed.ts';
import { compareKeys } from '../config/effective.ts';
import { findPackages, pickPackage, type PackageListing } from '../config/packages.ts';
import type { InstallationChange, InstallationContent, InstallationRow } from './types.ts';
import { readProvides, type Package } from './package.ts';
import { describeProvisions, listProvisions } from './provision.ts';
import { compareVersions } from './version.ts';
import type { RoleNeed } from '../directive/define.service.ts';
import { createContent } from './installer.service.ts';
import { findNewOperatorKeys } from './compatibility.service.ts';
import { applyWebhooks } from './webhooks.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Config } from '../config/config.ts';
import type { Blueprint } from '../engine/generation.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';

/** The choice of a package's files. */
export interface PackageChoice {
  readonly package_slug: string;
  readonly version: string;
  readonly hash?: string | undefined;
}

/** The choice of an installation: the current one of the package (default), or one by its id. */
export interface InstallationChoice {
  readonly package_slug: string;
  readonly installation_id?: string | undefined;
}

/** The services that install packages. */
export interface Provisioner {
  readonly context: LedgerContext;
  readonly webhookIntake: WebhookIntake;
  readonly compile: (config: Config) => Blueprint;
  /** The directories of packages; the first of two equal ones counts. */
  readonly packageRoots: () => readonly string[];
  /** Makes the installations active that the ledger has now. */
  readonly renew: () => Promise<void>;
}

/** Returns the role for new operator keys. They decide which programs run, so only an owner sets them. */
export async function roleForContent(
  found: Package,
  config: JsonObject,
  row: InstallationRow | undefined,
  context: LedgerContext,
): Promise<RoleNeed | undefined> {
  const { provisioned } = await createContent(found, config, context);
  const before = row === undefined ? {} : readProvides(row.provisioned).plugins;
  const { catalog } = context.generation;
  const [own] = findNewOperatorKeys(readProvides(provisioned).plugins, before, catalog);
  if (own === undefined) return undefined;
  return { role: 'owner', what: keyText(['plugins', own.plugin, 'config', own.key]) };
}

/** Activates a change in this process: first the targets of its webhooks, then the webhooks. */
export async function applyInstallation(
  provisioner: Provisioner,
  result: JsonObject,
): Promise<void> {
  await provisioner.renew();
  await applyWebhooks(provisioner.context, provisioner.webhookIntake, result);
}

export function planSwitch(row: InstallationRow, to: InstallationChange['to']): string[] {
  const { slug, version, status } = row;
  const isUnchanged = to === 'installed' ? status === 'installed' : status === to;
  if (isUnchanged) return [`${slug} ${version} is already ${to}; nothing would change.`];
  const all = listInstalledProvisions(row);
  if (to === 'installed') {
    return [`${slug} ${version} will be enabled.`, ...describeProvisions(all, 'added')];
  }
  const gone = describeProvisions(all, to === 'disabled' ? 'disabled' : 'removed');
  const jobs =
    'Queued jobs of its plugins become `dead` if no process has the plugins within ' +
    '`service.runner_grace`.';
  if (to === 'disabled') return [`${slug} ${version} will be disabled.`, ...gone, jobs];
  const end = 'This cannot be undone: installing it again is a new installation.';
  return [`${slug} ${version} will be uninstalled.`, ...gone, jobs, end];
}

export function refuseDowngrade(
  row: InstallationRow,
  content: InstallationContent,
  { allow_downgrade: mayGoBack }: { readonly allow_downgrade: boolean },
): void {
  const { slug, version } = row;
  const isSame =
    version === content.version &&
    row.hash === content.hash &&
    row.configChecksum === content.configChecksum;
  if (isSame) {
    const message = `${slug} ${version} is already installed with this configuration`;
    const hint = 'Name another version with --at, or another configuration with --with.';
    throw new DuctileError('PACKAGE_REFUSED', message, { place: 'version', hint });
  }
  if (compareVersions(content.version, version) >= 0 || mayGoBack) return;
  throw new DuctileError('PACKAGE_REFUSED', `${content.version} is older than ${version}`, {
    place: 'version',
    hint: 'Add --allow-downgrade to install the older version.',
  });
}

/** Finds the files of a package. They must be those that were requested or approved. */
export function pickFiles({ packageRoots }: Provisioner, choice: PackageChoice): Package {
  const packages: PackageListing = findPackages(packageRoots());
  const found = pickPackage(packages, choice.package_slug, choice.version);
  if (choice.hash === undefined || choice.hash === found.hash) return found;
  const message = `the files of ${found.slug} ${found.version} do not have the requested hash`;
  const hint = 'Review them with `ductile package show`, then request the change again.';
  throw new DuctileError('PACKAGE_REFUSED', message, { place: 'hash', hint });
}

export function versionOfPackage({ version, hash }: Package): Pick<Package, 'version' | 'hash'> {
  return { version, hash };
}

export function createInstalledError({ slug, version, status }: InstallationRow): DuctileError {
  const how = status === 'disabled' ? ' and disabled' : '';
  return new DuctileError(
    'PACKAGE_INSTALLED',
    `${slug} is already installed, at ${version}${how}`,
    {
      place: slug,
    },
  );
}

/** Finds the current installation, or the last one, so that a repeated uninstall is the same request. */
export async function findInstallationId(
  { context: { ledger } }: Provisioner,
  { package_slug: slug, installation_id: given }: InstallationChoice,
): Promise<{ installation_id?: string }> {
  if (given !== undefined) return {};
  const rows = await ledger.installations.list({ slug, withEnded: true });
  const row = rows.find(({ status }) => status !== 'uninstalled') ?? rows.at(-1);
  return row === undefined ? {} : { installation_id: row.id };
}

export function requireInstallation(
  rows: readonly InstallationRow[],
  { package_slug: wanted, installation_id: id }: InstallationChoice,
): InstallationRow {
  const found = rows.find((row) => row.slug === wanted && (id === undefined || row.id === id));
  if (found !== undefined) return found;
  throw new DuctileError('INSTALLATION_NOT_FOUND', `${wanted} is not installed`, {
    place: wanted,
  });
}

/** Describes changed values, key by key. Secrets are masked. */
export function describeValues(row: InstallationRow, content: InstallationContent): string[] {
  const settings = compareKeys(parseJson(row.config), parseJson(content.config)).map(
    ({ key, ...values }) => ({ key: `config.${key}`, ...values }),
  );
  const provided = compareKeys(parseJson(row.provisioned), parseJson(content.provisioned));
  const all = [...settings, ...provided];
  const shown = all.slice(0, limits.planChangesMax).map(({ key, before, after }) => {
    return `${key} will change from ${before ?? 'not set'} to ${after ?? 'not set'}.`;
  });
  const left = all.length - shown.length;
  return left === 0 ? shown : [...shown, `${left} more values will change.`];
}

export function listInstalledProvisions({ slug, provisioned }: InstallationRow) {
  return listProvisions(slug, readProvides(provisioned));
}

export function toInstalledPackage(
  id: string,
  { slug, version }: Package,
  content: InstallationContent,
): InstalledPackage {
  return { id, slug, version, provides: readProvides(content.provisioned) };
}
