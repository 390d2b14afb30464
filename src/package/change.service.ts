import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { limits } from '../base/limits.ts';
import { keyText } from '../config/document.ts';
import type { InstalledPackage } from '../config/installed.ts';
import { compareKeys } from '../config/effective.ts';
import { findPackages, pickPackage, type PackageListing } from '../config/packages.ts';
import {
  disableType,
  enableType,
  installType,
  uninstallType,
  upgradeType,
  type InstallationChoice,
  type InstallChoice,
  type UpgradeChoice,
} from './change-directives.ts';
import type { DirectiveType } from '../directive/directive.ts';
import type { InstallationChange, InstallationContent, InstallationRow } from './types.ts';
import { readProvides, type Package } from './package.ts';
import { compareProvisions, describeProvisions, listProvisions } from './provision.ts';
import { compareVersions } from './version.ts';
import type { BoundDirective, RoleNeed } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import { changeInstallation, insertInstallation } from './installation.sql.ts';
import { createContent, readInstallations, refuseUnfit } from './installer.service.ts';
import { toInstalled } from './installations.service.ts';
import { findNewOperatorKeys } from './compatibility.service.ts';
import { applyWebhooks, prepareWebhooks, refuseWebhooks } from './webhooks.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Config } from '../config/config.ts';
import type { Blueprint } from '../engine/generation.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';

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

export function registerPackageDirectives(directives: Directives, provisioner: Provisioner): void {
  directives.registerDirective(installDirective(provisioner));
  directives.registerDirective(upgradeDirective(provisioner));
  directives.registerDirective(switchDirective(provisioner, enableType, 'installed'));
  directives.registerDirective(switchDirective(provisioner, disableType, 'disabled'));
  directives.registerDirective(switchDirective(provisioner, uninstallType, 'uninstalled'));
}

/** Installs a package. The installation has the id of its directive, so that all signals can name it. */
function installDirective(provisioner: Provisioner): BoundDirective<InstallChoice> {
  const { context, webhookIntake: intake, compile } = provisioner;
  const { ledger } = context;
  const prepare = async (choice: InstallChoice, id: string) => {
    const found = pickFiles(provisioner, choice);
    const { version: plannedAt, rows } = await readInstallations(ledger);
    const existing = rows.find(({ slug }) => slug === found.slug);
    if (existing !== undefined) throw createInstalledError(existing);
    const content = await createContent(found, choice.config, context);
    const one = toInstalledPackage(id, found, content);
    refuseUnfit(found, one, rows, context, compile);
    const request = { row: undefined, webhooks: one.provides.webhooks, isOn: true };
    await refuseWebhooks(request, context, intake);
    return { found, content, plannedAt, request };
  };
  return {
    ...installType,
    resolve: (choice) =>
      Promise.resolve({ ...choice, ...versionOf(pickFiles(provisioner, choice)) }),
    roleFor: (choice) =>
      roleForContent(pickFiles(provisioner, choice), choice.config, undefined, context),
    async plan(choice) {
      const { found, content } = await prepare(choice, '');
      return [
        `${found.slug} ${found.version} (${found.title}) would be installed.`,
        ...describeProvisions(content.provisions, 'added'),
      ];
    },
    async prepare(choice, { directiveId }) {
      const { found, content, plannedAt, request } = await prepare(choice, directiveId);
      const { slug } = found;
      const { webhooks, ...revealed } = await prepareWebhooks(request, context);
      const installation = { id: directiveId, slug, directiveId, plannedAt, webhooks, ...content };
      return {
        work: (tx, actor) => insertInstallation(tx, installation, actor),
        commitName: 'install',
        ...revealed,
      };
    },
    after: (_choice, result) => applyChange(provisioner, result),
  };
}

function upgradeDirective(provisioner: Provisioner): BoundDirective<UpgradeChoice> {
  const { context, webhookIntake: intake, compile } = provisioner;
  const { ledger } = context;
  const prepare = async (choice: UpgradeChoice) => {
    const { version: plannedAt, rows } = await readInstallations(ledger);
    const row = requireInstallation(rows, choice);
    const found = pickFiles(provisioner, choice);
    const config = choice.config ?? (parseJson(row.config) as JsonObject);
    const content = await createContent(found, config, context);
    refuseDowngrade(row, content, choice);
    const others = rows.filter(({ id }) => id !== row.id);
    const one = toInstalledPackage(row.id, found, content);
    refuseUnfit(found, one, others, context, compile);
    const isOn = row.status !== 'disabled';
    const request = { row, webhooks: one.provides.webhooks, isOn };
    await refuseWebhooks(request, context, intake);
    return { row, found, content, plannedAt, request };
  };
  return {
    ...upgradeType,
    resolve: async (choice) => ({
      ...choice,
      ...versionOf(pickFiles(provisioner, choice)),
      ...(await findId(provisioner, choice)),
    }),
    async roleFor(choice) {
      const { rows } = await readInstallations(ledger);
      const row = requireInstallation(rows, choice);
      const config = choice.config ?? (parseJson(row.config) as JsonObject);
      return await roleForContent(pickFiles(provisioner, choice), config, row, context);
    },
    async plan(choice) {
      const { row, found, content } = await prepare(choice);
      const change = compareProvisions(readProvisions(row), content.provisions);
      const hasNewFiles = row.version === found.version && row.hash !== found.hash;
      const words = [
        `${found.slug} would go from ${row.version} to ${found.version}`,
        hasNewFiles ? 'whose files have changed' : [],
        choice.config === undefined ? [] : 'with another configuration',
      ];
      return [
        `${words.flat().join(', ')}.`,
        ...describeProvisions(change.added, 'added'),
        ...describeProvisions(change.removed, 'taken away'),
        ...describeValues(row, content),
        ...(row.status === 'disabled' ? ['It is disabled and would stay so.'] : []),
      ];
    },
    async prepare(choice, { directiveId }) {
      const { row, content, plannedAt, request } = await prepare(choice);
      const to = request.isOn ? 'installed' : 'disabled';
      const { webhooks, ...revealed } = await prepareWebhooks(request, context);
      const planned = { directiveId, plannedAt, to, content, webhooks } as const;
      const change = { ...toName(row), ...planned };
      return {
        work: (tx) => changeInstallation(tx, change),
        commitName: 'install',
        ...revealed,
      };
    },
    after: (_choice, result) => applyChange(provisioner, result),
  };
}

function switchDirective(
  provisioner: Provisioner,
  type: DirectiveType<InstallationChoice>,
  to: InstallationChange['to'],
): BoundDirective<InstallationChoice> {
  const { context, compile } = provisioner;
  const prepare = async (choice: InstallationChoice) => {
    const { version: plannedAt, rows } = await readInstallations(context.ledger);
    const row = requireInstallation(rows, choice);
    const others = rows.filter(({ id }) => id !== row.id);
    if (to === 'installed') refuseUnfit(undefined, toInstalled(row), others, context, compile);
    return { row, plannedAt };
  };
  return {
    ...type,
    resolve: async (choice) => ({ ...choice, ...(await findId(provisioner, choice)) }),
    async plan(choice) {
      const { row } = await prepare(choice);
      const purged = 'The state and the facts of its plugins would be deleted, for good.';
      return [...planSwitch(row, to), ...(choice.purge === true ? [purged] : [])];
    },
    async prepare(choice, { directiveId }) {
      const { row, plannedAt } = await prepare(choice);
      const plugins = readProvisions(row).filter(({ kind }) => kind === 'plugin');
      const purge = choice.purge === true ? plugins.map(({ name }) => name) : [];
      const remaining = to === 'uninstalled' ? [] : readProvides(row.provisioned).webhooks;
      const isOn = to === 'installed';
      const { webhooks, ...revealed } = await prepareWebhooks(
        { row, webhooks: remaining, isOn },
        context,
      );
      const change = { ...toName(row), directiveId, plannedAt, to, purge, webhooks };
      return { work: (tx) => changeInstallation(tx, change), commitName: 'install', ...revealed };
    },
    after: (_choice, result) => applyChange(provisioner, result),
  };
}

/** Returns the role for new operator keys. They decide which programs run, so only an owner sets them. */
async function roleForContent(
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
async function applyChange(provisioner: Provisioner, result: JsonObject): Promise<void> {
  await provisioner.renew();
  await applyWebhooks(provisioner.context, provisioner.webhookIntake, result);
}

function planSwitch(row: InstallationRow, to: InstallationChange['to']): string[] {
  const { slug, version, status } = row;
  const isUnchanged = to === 'installed' ? status === 'installed' : status === to;
  if (isUnchanged) return [`${slug} ${version} is ${to} already; nothing would change.`];
  const all = readProvisions(row);
  if (to === 'installed') {
    return [`${slug} ${version} would be in force again.`, ...describeProvisions(all, 'added')];
  }
  const gone = describeProvisions(all, to === 'disabled' ? 'out of force' : 'taken away');
  const jobs = 'Jobs of its plugins that wait die when nobody has them in time.';
  if (to === 'disabled') return [`${slug} ${version} would be disabled.`, ...gone, jobs];
  const end = 'This cannot be undone: installing it again is a new installation.';
  return [`${slug} ${version} would be uninstalled.`, ...gone, jobs, end];
}

function refuseDowngrade(
  row: InstallationRow,
  content: InstallationContent,
  { allow_downgrade: mayGoBack }: UpgradeChoice,
): void {
  const { slug, version } = row;
  const isSame =
    version === content.version &&
    row.hash === content.hash &&
    row.configChecksum === content.configChecksum;
  if (isSame) {
    const message = `${slug} is at ${version} with this configuration already`;
    const hint = 'Nothing was changed. Name another version with --at, or say more with --with.';
    throw new DuctileError('PACKAGE_REFUSED', message, { place: 'version', hint });
  }
  if (compareVersions(content.version, version) >= 0 || mayGoBack) return;
  throw new DuctileError('PACKAGE_REFUSED', `${content.version} is older than ${version}`, {
    place: 'version',
    hint: 'Say --allow-downgrade if that is what you want.',
  });
}

/** Finds the files of a package. They must be those that were requested or approved. */
function pickFiles({ packageRoots }: Provisioner, choice: InstallChoice | UpgradeChoice): Package {
  const packages: PackageListing = findPackages(packageRoots());
  const found = pickPackage(packages, choice.package_slug, choice.version);
  if (choice.hash === undefined || choice.hash === found.hash) return found;
  const message = `the files of ${found.slug} ${found.version} are not those that were asked for`;
  const hint = 'See what they say now with `ductile package show`, then ask again.';
  throw new DuctileError('PACKAGE_REFUSED', message, { place: 'hash', hint });
}

function versionOf({ version, hash }: Package): Pick<Package, 'version' | 'hash'> {
  return { version, hash };
}

function createInstalledError({ slug, version, status }: InstallationRow): DuctileError {
  const how = status === 'disabled' ? ' and disabled' : '';
  return new DuctileError(
    'PACKAGE_INSTALLED',
    `${slug} is installed already, at ${version}${how}`,
    {
      place: slug,
    },
  );
}

/** Finds the current installation, or the last one, so that a repeated uninstall is the same request. */
async function findId(
  { context: { ledger } }: Provisioner,
  { package_slug: slug, installation_id: given }: InstallationChoice,
): Promise<{ installation_id?: string }> {
  if (given !== undefined) return {};
  const rows = await ledger.installations.list({ slug, withEnded: true });
  const row = rows.find(({ status }) => status !== 'uninstalled') ?? rows.at(-1);
  return row === undefined ? {} : { installation_id: row.id };
}

function requireInstallation(
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
function describeValues(row: InstallationRow, content: InstallationContent): string[] {
  const settings = compareKeys(parseJson(row.config), parseJson(content.config)).map(
    ({ key, ...values }) => ({ key: `config.${key}`, ...values }),
  );
  const provided = compareKeys(parseJson(row.provisioned), parseJson(content.provisioned));
  const all = [...settings, ...provided];
  const shown = all.slice(0, limits.planChangesMax).map(({ key, before, after }) => {
    return `${key} would change from ${before ?? 'not set'} to ${after ?? 'not set'}.`;
  });
  const left = all.length - shown.length;
  return left === 0 ? shown : [...shown, `${left} more values would change.`];
}

function readProvisions({ slug, provisioned }: InstallationRow) {
  return listProvisions(slug, readProvides(provisioned));
}

function toInstalledPackage(
  id: string,
  { slug, version }: Package,
  content: InstallationContent,
): InstalledPackage {
  return { id, slug, version, provides: readProvides(content.provisioned) };
}

function toName({ id, slug }: InstallationRow): { id: string; slug: string } {
  return { id, slug };
}
