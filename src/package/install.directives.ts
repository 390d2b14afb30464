import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import { compact, hasExact, type JsonObject, isObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import {
  defineDirective,
  type CompletedDirective,
  directiveIdField,
} from '../operation/define-directive.ts';
import {
  applyInstallation,
  createInstalledError,
  describeValues,
  findInstallationId,
  listInstalledProvisions,
  pickFiles,
  refuseDowngrade,
  requireInstallation,
  roleForContent,
  toInstalledPackage,
  versionOfPackage,
} from './change.service.ts';
import { changeInstallation, insertInstallation } from './installation.sql.ts';
import { createContent, readInstallations, refuseUnfit } from './installer.service.ts';
import { packageField } from './operations.ts';
import { compareProvisions, describeProvisions } from './provision.ts';
import { prepareWebhooks, refuseWebhooks } from './webhooks.service.ts';
import type { Context } from '../operation/context.ts';
import { textIn } from '../operation/request-directive.ts';

/** The output of operations that change an installation. */
export const installationChangeShape = z.object({
  installation_id: z.string(),
  package: z.string(),
  version: z.string(),
  provisioned: z.record(z.string(), z.int()).optional().describe('number of added objects by kind'),
  webhooks: z
    .array(
      z.object({
        id: z.string(),
        path: z.string(),
        secret: z.string().nullable().describe('generated secret, shown only once'),
      }),
    )
    .optional()
    .describe('webhooks of the package'),
  directive_id: directiveIdField,
});

export function showInstallationChange(
  _context: Context,
  { result }: Pick<CompletedDirective<unknown>, 'result'>,
): Omit<z.output<typeof installationChangeShape>, 'directive_id'> {
  const { provisioned } = result;
  return {
    installation_id: textIn(result, 'installation_id'),
    package: textIn(result, 'package_slug'),
    version: textIn(result, 'version'),
    ...(provisioned === undefined ? {} : { provisioned: provisioned as Record<string, number> }),
    ...showWebhooks(result),
  };
}

/** New secrets aren't recorded: only the first response contains them. */
function showWebhooks({ webhooks, secrets }: JsonObject) {
  if (!Array.isArray(webhooks)) return {};
  const ids = webhooks.filter((id) => typeof id === 'string');
  const newSecrets = isObject(secrets) ? secrets : {};
  return {
    webhooks: ids.map((id) => {
      const secret = newSecrets[id];
      return {
        id,
        path: `/hooks/${id}`,
        secret: typeof secret === 'string' ? secret : null,
      };
    }),
  };
}

/** The name of a package. */
export const packageSlug = z
  .string()
  .min(1)
  .max(64)
  .describe('name of the package, such as folder-notify');
const versionParam = z
  .string()
  .min(1)
  .max(64)
  .default('latest')
  .describe('`latest` is the newest version (default: latest)');
/**
 * The hash of the package. It is always recorded, so that changed files are a different request.
 */
const hashParam = z
  .string()
  .min(1)
  .max(64)
  .optional()
  .describe('hash of its files, as `package show` prints it');
const configParam = z
  .record(z.string(), z.unknown())
  // Configuration files only have doubles, so exact numbers are refused.
  .refine((value) => !hasExact(value), 'has a number with more digits than a number can hold')
  .pipe(z.record(z.string(), z.json()))
  .describe('configuration for its config_schema');
/** Found by the slug if absent; always recorded. */
export const installationId = z.string().min(1).max(64).optional();

const common = {
  scope: 'packages:rw',
  role: 'admin',
  sameness: () => 'latest' as const,
  target: ({ package_slug: slug }: { readonly package_slug: string }) => slug,
  after: ({ services }: DirectiveContext, _choice: object, result: JsonObject) =>
    applyInstallation(services.packages, result),
} as const;

const configField = z
  .record(z.string(), z.unknown())
  .describe('configuration for its config_schema; secrets as credential:<name>');
const versionField = nonBlankText()
  .max(64)
  .default('latest')
  .describe('`latest` is the newest version that is not a pre-release (default: latest)');

const errors = [
  'INPUT_INVALID',
  'LEDGER_UNAVAILABLE',
  'CREDENTIAL_KEY_INVALID',
  'CREDENTIAL_KEY_MISSING',
  'CREDENTIAL_NOT_FOUND',
  'PACKAGE_INVALID',
  'PACKAGE_NOT_FOUND',
  'PACKAGE_REFUSED',
  'WEBHOOK_EXISTS',
] as const;

const installParams = z.strictObject({
  package_slug: packageSlug,
  version: versionParam,
  hash: hashParam,
  config: configParam.default({}),
});

type InstallChoice = z.output<typeof installParams>;

/** Installs a package. The installation has the id of its directive, so that all signals can name it. */
export const installPackageDirective = defineDirective({
  ...common,
  type: 'package.install',
  summary: 'Install a package. It takes effect immediately, or nothing changes.',
  params: installParams,
  resolve: ({ services }, choice) => ({
    ...choice,
    ...versionOfPackage(pickFiles(services.packages, choice)),
  }),
  roleFor: (context, choice) =>
    roleForContent(pickFiles(context.services.packages, choice), choice.config, undefined, context),
  async plan(context, choice) {
    const { found, content } = await checkInstall(context, choice, '');
    return [
      `${found.slug} ${found.version} (${found.title}) will be installed.`,
      ...describeProvisions(content.provisions, 'added'),
    ];
  },
  async prepare(context, choice, { directiveId }) {
    const { found, content, plannedAt, request } = await checkInstall(context, choice, directiveId);
    const { slug } = found;
    const { webhooks, ...revealed } = await prepareWebhooks(request, context);
    const installation = { id: directiveId, slug, directiveId, plannedAt, webhooks, ...content };
    return {
      work: (tx, actor) => insertInstallation(tx, installation, actor),
      commitName: 'install',
      ...revealed,
    };
  },
  operation: {
    effect: 'write',
    input: z.strictObject({
      package: packageField,
      version: versionField,
      config: configField.default({}),
    }),
    output: installationChangeShape,
    errors: [...errors, 'PACKAGE_INSTALLED'],
    http: { method: 'POST', path: '/packages/:package/install', isSecret: true },
    cli: {
      positionals: ['package'],
      flags: { config: '--with <json>', version: '--at <version>' },
      examples: [
        'ductile package install folder-notify --with \'{"folder":"/srv/in","file":"/srv/arrived.jsonl"}\'',
        'ductile package install site-watch --config-file site.json --dry-run',
      ],
    },
    toParams: (_context, { package: slug, ...rest }) => ({ package_slug: slug, ...rest }),
    toOutput: showInstallationChange,
  },
});

const upgradeParams = z.strictObject({
  package_slug: packageSlug,
  version: versionParam,
  hash: hashParam,
  config: configParam.optional().describe('the new configuration (default: the current one)'),
  allow_downgrade: z.boolean().default(false),
  installation_id: installationId,
});

type UpgradeChoice = z.output<typeof upgradeParams>;

export const upgradePackageDirective = defineDirective({
  ...common,
  type: 'package.upgrade',
  summary: 'Change the version or the configuration of an installed package.',
  params: upgradeParams,
  resolve: async ({ services }, choice) => ({
    ...choice,
    ...versionOfPackage(pickFiles(services.packages, choice)),
    ...(await findInstallationId(services.packages, choice)),
  }),
  async roleFor(context, choice) {
    const { ledger, services } = context;
    const { rows } = await readInstallations(ledger);
    const row = requireInstallation(rows, choice);
    const config = choice.config ?? (parseJson(row.config) as JsonObject);
    return await roleForContent(pickFiles(services.packages, choice), config, row, context);
  },
  async plan(context, choice) {
    const { row, found, content } = await checkUpgrade(context, choice);
    const change = compareProvisions(listInstalledProvisions(row), content.provisions);
    const hasNewFiles = row.version === found.version && row.hash !== found.hash;
    const words = [
      `${found.slug} will change from ${row.version} to ${found.version}`,
      hasNewFiles ? 'whose files have changed' : [],
      choice.config === undefined ? [] : 'with another configuration',
    ];
    return [
      `${words.flat().join(', ')}.`,
      ...describeProvisions(change.added, 'added'),
      ...describeProvisions(change.removed, 'removed'),
      ...describeValues(row, content),
      ...(row.status === 'disabled' ? ['It is disabled and will stay disabled.'] : []),
    ];
  },
  async prepare(context, choice, { directiveId }) {
    const { row, content, plannedAt, request } = await checkUpgrade(context, choice);
    const to = request.isOn ? 'installed' : 'disabled';
    const { webhooks, ...revealed } = await prepareWebhooks(request, context);
    const planned = { directiveId, plannedAt, to, content, webhooks } as const;
    const change = { id: row.id, slug: row.slug, ...planned };
    return {
      work: (tx) => changeInstallation(tx, change),
      commitName: 'install',
      ...revealed,
    };
  },
  operation: {
    effect: 'write',
    input: z.strictObject({
      package: packageField,
      version: versionField,
      config: configField.optional().describe('new configuration (default: the current one)'),
      allow_downgrade: z
        .boolean()
        .default(false)
        .describe('allow an older version (default: false)'),
    }),
    output: installationChangeShape,
    errors: [...errors, 'INSTALLATION_NOT_FOUND'],
    http: { method: 'POST', path: '/packages/:package/upgrade', isSecret: true },
    cli: {
      positionals: ['package'],
      flags: { config: '--with <json>', version: '--at <version>' },
      examples: [
        'ductile package upgrade folder-notify --dry-run',
        'ductile package upgrade folder-notify --at 1.0.0 --allow-downgrade',
      ],
    },
    toParams: (_context, { package: slug, config, ...rest }) => ({
      package_slug: slug,
      ...rest,
      ...compact({ config }),
    }),
    toOutput: showInstallationChange,
  },
});

async function checkInstall(context: DirectiveContext, choice: InstallChoice, id: string) {
  const { ledger, services } = context;
  const { webhookIntake: intake, compile } = services.packages;
  const found = pickFiles(services.packages, choice);
  const { version: plannedAt, rows } = await readInstallations(ledger);
  const existing = rows.find(({ slug }) => slug === found.slug);
  if (existing !== undefined) throw createInstalledError(existing);
  const content = await createContent(found, choice.config, context);
  const one = toInstalledPackage(id, found, content);
  refuseUnfit(found, one, rows, context, compile);
  const request = { row: undefined, webhooks: one.provides.webhooks, isOn: true };
  await refuseWebhooks(request, context, intake);
  return { found, content, plannedAt, request };
}

async function checkUpgrade(context: DirectiveContext, choice: UpgradeChoice) {
  const { ledger, services } = context;
  const { webhookIntake: intake, compile } = services.packages;
  const { version: plannedAt, rows } = await readInstallations(ledger);
  const row = requireInstallation(rows, choice);
  const found = pickFiles(services.packages, choice);
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
}
