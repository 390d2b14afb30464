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
import { compareProvisions, describeProvisions, provisionsOf } from './provision.ts';
import { compareVersions } from './version.ts';
import type { DirectiveDefinition, RoleNeed } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import { makeContent, readStanding, refuseUnfit } from './installer.service.ts';
import { toInstalled } from './installations.service.ts';
import { findNewPrograms } from './compatibility.service.ts';
import {
  refreshWebhooks,
  draftWebhookMoves,
  checkInstallationWebhooks,
} from './webhooks.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Config } from '../config/config.ts';
import type { Blueprint } from '../engine/generation.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';

/** What changes of installations use, beside the ledger. */
export interface Provisioner {
  readonly context: LedgerContext;
  readonly webhookIntake: WebhookIntake;
  readonly compile: (config: Config) => Blueprint;
  /** The directories of packages; the first of two equal ones counts. */
  readonly packageRoots: () => readonly string[];
  /** Makes the installations active that the ledger has now. */
  readonly renew: () => Promise<void>;
}

export function registerPackageDirectives(directives: Directives, by: Provisioner): void {
  directives.registerDirective(installDirective(by));
  directives.registerDirective(upgradeDirective(by));
  directives.registerDirective(switchDirective(by, enableType, 'installed'));
  directives.registerDirective(switchDirective(by, disableType, 'disabled'));
  directives.registerDirective(switchDirective(by, uninstallType, 'uninstalled'));
}

/** The installation's id is the directive's, so that every signal of it can name it. */
function installDirective(by: Provisioner): DirectiveDefinition<InstallChoice> {
  const { context, webhookIntake: intake, compile } = by;
  const { ledger } = context;
  const prepare = async (choice: InstallChoice, id: string) => {
    const found = pick(by, choice);
    const { version: plannedAt, rows } = await readStanding(ledger);
    const there = rows.find(({ slug }) => slug === found.slug);
    if (there !== undefined) throw installed(there);
    const content = await makeContent(found, choice.config, context);
    const one = toOne(id, found, content);
    refuseUnfit(found, one, rows, context, compile);
    const change = { row: undefined, webhooks: one.provides.webhooks, isOn: true };
    await checkInstallationWebhooks(change, context, intake);
    return { found, content, plannedAt, change };
  };
  return {
    ...installType,
    resolve: (choice) => Promise.resolve({ ...choice, ...contentsOf(pick(by, choice)) }),
    roleFor: (choice) => roleForContent(pick(by, choice), choice.config, undefined, context),
    async plan(choice) {
      const { found, content } = await prepare(choice, '');
      return [
        `${found.slug} ${found.version} (${found.title}) would be installed.`,
        ...describeProvisions(content.provisions, 'added'),
      ];
    },
    async prepare(choice, { directiveId }) {
      const { found, content, plannedAt, change } = await prepare(choice, directiveId);
      const { slug } = found;
      const { webhooks, ...revealed } = await draftWebhookMoves(change, context);
      const installation = { id: directiveId, slug, directiveId, plannedAt, webhooks, ...content };
      return { work: { kind: 'package.install', installation }, ...revealed };
    },
    after: (_choice, result) => heed(by, result),
  };
}

function upgradeDirective(by: Provisioner): DirectiveDefinition<UpgradeChoice> {
  const { context, webhookIntake: intake, compile } = by;
  const { ledger } = context;
  const prepare = async (choice: UpgradeChoice) => {
    const { version: plannedAt, rows } = await readStanding(ledger);
    const row = mustFind(rows, choice);
    const found = pick(by, choice);
    const config = choice.config ?? (parseJson(row.config) as JsonObject);
    const content = await makeContent(found, config, context);
    refuseBackwards(row, content, choice);
    const others = rows.filter(({ id }) => id !== row.id);
    const one = toOne(row.id, found, content);
    refuseUnfit(found, one, others, context, compile);
    const isOn = row.status !== 'disabled';
    const change = { row, webhooks: one.provides.webhooks, isOn };
    await checkInstallationWebhooks(change, context, intake);
    return { row, found, content, plannedAt, change };
  };
  return {
    ...upgradeType,
    resolve: async (choice) => ({
      ...choice,
      ...contentsOf(pick(by, choice)),
      ...(await idOf(by, choice)),
    }),
    async roleFor(choice) {
      const { rows } = await readStanding(ledger);
      const row = mustFind(rows, choice);
      const config = choice.config ?? (parseJson(row.config) as JsonObject);
      return await roleForContent(pick(by, choice), config, row, context);
    },
    async plan(choice) {
      const { row, found, content } = await prepare(choice);
      const change = compareProvisions(provisionsIn(row), content.provisions);
      const isOther = row.version === found.version && row.hash !== found.hash;
      const words = [
        `${found.slug} would go from ${row.version} to ${found.version}`,
        isOther ? 'whose files have changed' : [],
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
      const { row, content, plannedAt, change } = await prepare(choice);
      const to = change.isOn ? 'installed' : 'disabled';
      const { webhooks, ...revealed } = await draftWebhookMoves(change, context);
      const planned = { directiveId, plannedAt, to, content, webhooks } as const;
      return {
        work: { kind: 'package.change', change: { ...nameOf(row), ...planned } },
        ...revealed,
      };
    },
    after: (_choice, result) => heed(by, result),
  };
}

function switchDirective(
  by: Provisioner,
  type: DirectiveType<InstallationChoice>,
  to: InstallationChange['to'],
): DirectiveDefinition<InstallationChoice> {
  const { context, compile } = by;
  const prepare = async (choice: InstallationChoice) => {
    const { version: plannedAt, rows } = await readStanding(context.ledger);
    const row = mustFind(rows, choice);
    const others = rows.filter(({ id }) => id !== row.id);
    if (to === 'installed') refuseUnfit(undefined, toInstalled(row), others, context, compile);
    return { row, plannedAt };
  };
  return {
    ...type,
    resolve: async (choice) => ({ ...choice, ...(await idOf(by, choice)) }),
    async plan(choice) {
      const { row } = await prepare(choice);
      const memory = 'The state and the facts of its plugins would be deleted, for good.';
      return [...planSwitch(row, to), ...(choice.purge === true ? [memory] : [])];
    },
    async prepare(choice, { directiveId }) {
      const { row, plannedAt } = await prepare(choice);
      const plugins = provisionsIn(row).filter(({ kind }) => kind === 'plugin');
      const purge = choice.purge === true ? plugins.map(({ name }) => name) : [];
      const left = to === 'uninstalled' ? [] : readProvides(row.provisioned).webhooks;
      const isOn = to === 'installed';
      const { webhooks, ...revealed } = await draftWebhookMoves(
        { row, webhooks: left, isOn },
        context,
      );
      const change = { ...nameOf(row), directiveId, plannedAt, to, purge, webhooks };
      return { work: { kind: 'package.change', change }, ...revealed };
    },
    after: (_choice, result) => heed(by, result),
  };
}

/** Keys that a manifest marks as `operator` decide which programs run: only an owner sets them. */
async function roleForContent(
  found: Package,
  config: JsonObject,
  row: InstallationRow | undefined,
  context: LedgerContext,
): Promise<RoleNeed | undefined> {
  const { provisioned } = await makeContent(found, config, context);
  const before = row === undefined ? {} : readProvides(row.provisioned).plugins;
  const { catalog } = context.generation;
  const [own] = findNewPrograms(readProvides(provisioned).plugins, before, catalog);
  if (own === undefined) return undefined;
  return { role: 'owner', what: keyText(['plugins', own.plugin, 'config', own.key]) };
}

/** First what its webhooks start, then what they are. */
async function heed(by: Provisioner, result: JsonObject): Promise<void> {
  await by.renew();
  await refreshWebhooks(by.context, by.webhookIntake, result);
}

function planSwitch(row: InstallationRow, to: InstallationChange['to']): string[] {
  const { slug, version, status } = row;
  const isThere = to === 'installed' ? status === 'installed' : status === to;
  if (isThere) return [`${slug} ${version} is ${to} already; nothing would change.`];
  const all = provisionsIn(row);
  if (to === 'installed') {
    return [`${slug} ${version} would be in force again.`, ...describeProvisions(all, 'added')];
  }
  const gone = describeProvisions(all, to === 'disabled' ? 'out of force' : 'taken away');
  const jobs = 'Jobs of its plugins that wait die when nobody has them in time.';
  if (to === 'disabled') return [`${slug} ${version} would be disabled.`, ...gone, jobs];
  const end = 'This cannot be undone: installing it again is a new installation.';
  return [`${slug} ${version} would be uninstalled.`, ...gone, jobs, end];
}

function refuseBackwards(
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

/** What somebody asked for or approved is what they saw, and not what its files say since. */
function pick({ packageRoots }: Provisioner, choice: InstallChoice | UpgradeChoice): Package {
  const packages: PackageListing = findPackages(packageRoots());
  const found = pickPackage(packages, choice.package_slug, choice.version);
  if (choice.hash === undefined || choice.hash === found.hash) return found;
  const message = `the files of ${found.slug} ${found.version} are not those that were asked for`;
  const hint = 'See what they say now with `ductile package show`, then ask again.';
  throw new DuctileError('PACKAGE_REFUSED', message, { place: 'hash', hint });
}

function contentsOf({ version, hash }: Package): Pick<Package, 'version' | 'hash'> {
  return { version, hash };
}

function installed({ slug, version, status }: InstallationRow): DuctileError {
  const how = status === 'disabled' ? ' and disabled' : '';
  return new DuctileError(
    'PACKAGE_INSTALLED',
    `${slug} is installed already, at ${version}${how}`,
    {
      place: slug,
    },
  );
}

/** Of the one that is installed, or of the last that was: asking again for its end is asking once. */
async function idOf(
  { context: { ledger } }: Provisioner,
  { package_slug: slug, installation_id: given }: InstallationChoice,
): Promise<{ installation_id?: string }> {
  if (given !== undefined) return {};
  const rows = await ledger.installations.list({ slug, withEnded: true });
  const row = rows.find(({ status }) => status !== 'uninstalled') ?? rows.at(-1);
  return row === undefined ? {} : { installation_id: row.id };
}

function mustFind(
  rows: readonly InstallationRow[],
  { package_slug: wanted, installation_id: id }: InstallationChoice,
): InstallationRow {
  const found = rows.find((row) => row.slug === wanted && (id === undefined || row.id === id));
  if (found !== undefined) return found;
  throw new DuctileError('INSTALLATION_NOT_FOUND', `${wanted} is not installed`, {
    place: wanted,
  });
}

/** What is set before and after, key by key; secrets are masked. */
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

function provisionsIn({ slug, provisioned }: InstallationRow) {
  return provisionsOf(slug, readProvides(provisioned));
}

function toOne(
  id: string,
  { slug, version }: Package,
  content: InstallationContent,
): InstalledPackage {
  return { id, slug, version, provides: readProvides(content.provisioned) };
}

function nameOf({ id, slug }: InstallationRow): { id: string; slug: string } {
  return { id, slug };
}
