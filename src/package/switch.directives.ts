import * as z from 'zod';
import type { DirectiveExecution, PreparedWork } from '../directive/define.service.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import type { JsonObject } from '../base/json.ts';
import { defineDirective } from '../operation/define-directive.ts';
import {
  applyInstallation,
  findInstallationId,
  listInstalledProvisions,
  planSwitch,
  requireInstallation,
  type InstallationChoice,
} from './change.service.ts';
import {
  installationChangeShape,
  installationId,
  packageSlug,
  showInstallationChange,
} from './install.directives.ts';
import { changeInstallation } from './installation.sql.ts';
import { toInstalled } from './installations.service.ts';
import { readInstallations, refuseUnfit } from './installer.service.ts';
import { packageField } from './operations.ts';
import { readProvides } from './package.ts';
import type { InstallationChange } from './types.ts';
import { prepareWebhooks } from './webhooks.service.ts';

const common = {
  scope: 'packages:rw',
  role: 'admin',
  sameness: () => 'latest' as const,
  target: ({ package_slug: slug }: InstallationChoice) => slug,
  after: ({ services }: DirectiveContext, _choice: object, result: JsonObject) =>
    applyInstallation(services.packages, result),
} as const;

const params = z.strictObject({ package_slug: packageSlug, installation_id: installationId });

const commonOperation = {
  effect: 'write',
  input: z.strictObject({ package: packageField }),
  output: installationChangeShape,
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'INSTALLATION_NOT_FOUND', 'PACKAGE_REFUSED'],
  toParams: (_context: object, { package: slug }: { readonly package: string }) => ({
    package_slug: slug,
  }),
  toOutput: showInstallationChange,
} as const;

export const enablePackageDirective = defineDirective({
  ...common,
  type: 'package.enable',
  summary: 'Enable a package that was disabled.',
  params,
  resolve: resolveInstallation,
  plan: (context, choice) => describeSwitch(context, choice, 'installed'),
  prepare: (context, choice, execution) => prepareSwitch(context, choice, execution, 'installed'),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/packages/:package/enable' },
    cli: { positionals: ['package'], examples: ['ductile package enable folder-notify'] },
  },
});

export const disablePackageDirective = defineDirective({
  ...common,
  type: 'package.disable',
  summary: 'Disable an installed package. Its configuration is kept.',
  params,
  resolve: resolveInstallation,
  plan: (context, choice) => describeSwitch(context, choice, 'disabled'),
  prepare: (context, choice, execution) => prepareSwitch(context, choice, execution, 'disabled'),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/packages/:package/disable' },
    cli: { positionals: ['package'], examples: ['ductile package disable folder-notify'] },
  },
});

const purge = z
  .boolean()
  .default(false)
  .describe('delete the state and the facts of its plugins too (default: false)');

export const uninstallPackageDirective = defineDirective({
  ...common,
  type: 'package.uninstall',
  summary: 'Uninstall a package and remove what it provides. Its record is kept.',
  params: z.strictObject({ package_slug: packageSlug, purge, installation_id: installationId }),
  resolve: resolveInstallation,
  plan: (context, choice) => describeSwitch(context, choice, 'uninstalled'),
  prepare: (context, choice, execution) => prepareSwitch(context, choice, execution, 'uninstalled'),
  operation: {
    effect: 'destroy',
    input: z.strictObject({ package: packageField, purge }),
    output: installationChangeShape,
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'INSTALLATION_NOT_FOUND'],
    http: { method: 'POST', path: '/packages/:package/uninstall' },
    cli: {
      positionals: ['package'],
      examples: ['ductile package uninstall folder-notify --dry-run'],
    },
    toParams: (_context, { package: slug, ...rest }) => ({ package_slug: slug, ...rest }),
    toOutput: showInstallationChange,
  },
});

/** The state of an installation after a directive. */
type SwitchTarget = InstallationChange['to'];

/** `purge`: deletes the state and facts of its plugins, too. */
type SwitchChoice = InstallationChoice & { readonly purge?: boolean };

async function resolveInstallation<Choice extends InstallationChoice>(
  { services }: DirectiveContext,
  choice: Choice,
): Promise<Choice> {
  return { ...choice, ...(await findInstallationId(services.packages, choice)) };
}

async function checkSwitch(
  context: DirectiveContext,
  choice: InstallationChoice,
  to: SwitchTarget,
) {
  const { compile } = context.services.packages;
  const { version: plannedAt, rows } = await readInstallations(context.ledger);
  const row = requireInstallation(rows, choice);
  const others = rows.filter(({ id }) => id !== row.id);
  if (to === 'installed') refuseUnfit(undefined, toInstalled(row), others, context, compile);
  return { row, plannedAt };
}

async function describeSwitch(
  context: DirectiveContext,
  choice: SwitchChoice,
  to: SwitchTarget,
): Promise<string[]> {
  const { row } = await checkSwitch(context, choice, to);
  const purged = 'The state and the facts of its plugins will be deleted permanently.';
  return [...planSwitch(row, to), ...(choice.purge === true ? [purged] : [])];
}

async function prepareSwitch(
  context: DirectiveContext,
  choice: SwitchChoice,
  { directiveId }: DirectiveExecution,
  to: SwitchTarget,
): Promise<PreparedWork> {
  const { row, plannedAt } = await checkSwitch(context, choice, to);
  const plugins = listInstalledProvisions(row).filter(({ kind }) => kind === 'plugin');
  const purged = choice.purge === true ? plugins.map(({ name }) => name) : [];
  const remaining = to === 'uninstalled' ? [] : readProvides(row.provisioned).webhooks;
  const isOn = to === 'installed';
  const { webhooks, ...revealed } = await prepareWebhooks(
    { row, webhooks: remaining, isOn },
    context,
  );
  const change = {
    id: row.id,
    slug: row.slug,
    directiveId,
    plannedAt,
    to,
    purge: purged,
    webhooks,
  };
  return { work: (tx) => changeInstallation(tx, change), commitName: 'install', ...revealed };
}
