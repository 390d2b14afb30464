import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import type { JsonObject } from '../base/json.ts';
import { readInstallation } from '../config/installed.ts';
import { pickPackage, readPackage } from '../config/packages.ts';
import type { InstallationRow } from './types.ts';
import type { DirectiveType } from '../directive/directive.ts';
import { checkPackageHandlers, findHandlerTypes, type HandlerTypes } from './handlers.service.ts';
import { installationStatuses, type Package } from './package.ts';
import { addressWebhooks, fillProvides, listProvisions, withDefaults } from './provision.ts';
import { defineOperation } from '../operation/define.ts';
import { pluginProblemsShape, showPluginProblem } from '../plugin/operations.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';
import { DuctileError } from '../base/errors.ts';
import { parseJson } from '../base/parse-json.ts';

export const packageField = nonBlankText()
  .max(64)
  .describe('the name of the package, such as folder-notify');
const version = z.string().describe('a semantic version');

const summaryShape = {
  slug: z.string(),
  version: version.describe('newest version that is not a pre-release'),
  versions: z.array(z.string()).describe('all versions, newest first'),
  title: z.string(),
  category: z.string(),
  installed: z.string().nullable().describe('installed version'),
  status: z.string().nullable().describe('status of the installation'),
};

export const listPackages = defineOperation({
  name: 'package.list',
  summary: 'List the available packages, and the problems of invalid ones.',
  effect: 'read',
  scope: 'packages:ro',
  input: z.strictObject(pageFields),
  output: z.object({
    packages: z.array(z.object(summaryShape)),
    problems: pluginProblemsShape,
    next_cursor: nextCursorField,
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/packages' },
  cli: {
    examples: ['ductile package list'],
    isDefault: true,
    table: {
      rows: 'packages',
      columns: [
        ['PACKAGE', 'slug'],
        ['VERSION', 'version'],
        ['INSTALLED', 'installed'],
        ['STATUS', 'status'],
        ['CATEGORY', 'category'],
        ['TITLE', 'title'],
        ['VERSIONS', 'versions', 'detail'],
      ],
      empty: 'No packages. Add their directories to `package_roots`.',
    },
  },
  async run({ engine }, request) {
    const found = engine.packages();
    const rows = await engine.ledger.installations.list({});
    const slugs = [...new Set(found.packages.map((one) => one.slug))];
    const { page, next } = cutPage(slugs, (name) => name, request);
    return {
      packages: page.map((name) => {
        const all = found.packages.filter((one) => one.slug === name);
        return summarize(pickPackage(found, name, 'latest'), all, rows);
      }),
      // Tenants don't see the paths of the service.
      problems: engine.tenant === undefined ? found.problems.map(showPluginProblem) : [],
      next_cursor: next,
    };
  },
});

export const showPackage = defineOperation({
  name: 'package.show',
  summary: 'Show the configuration and the requirements of a package, and what it provides.',
  effect: 'read',
  scope: 'packages:ro',
  input: z.strictObject({
    package: packageField,
    version: z
      .string()
      .default('latest')
      .describe('`latest` is the newest version that is not a pre-release (default: latest)'),
  }),
  output: z.object({
    ...summaryShape,
    description: z.string(),
    config_schema: z.record(z.string(), z.unknown()).nullable().describe('JSON Schema'),
    requires: z.array(
      z.object({
        plugin: z.string(),
        commands: z.array(z.string()),
        version: z.string().nullable(),
      }),
    ),
    provides: z.array(z.object({ kind: z.string(), name: z.string() })),
    hash: z.string().describe('BLAKE3 of its files'),
    place: z.string().nullable().describe('path of its manifest; null for a tenant'),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PACKAGE_NOT_FOUND'],
  http: { method: 'GET', path: '/packages/:package' },
  cli: {
    positionals: ['package'],
    flags: { version: '--at <version>' },
    examples: ['ductile package show folder-notify', 'ductile package show site-watch --at 1.0.0'],
  },
  async run({ engine }, input) {
    const found = engine.packages();
    const one = pickPackage(found, input.package, input.version);
    const rows = await engine.ledger.installations.list({ slug: one.slug });
    const all = found.packages.filter(({ slug: other }) => other === one.slug);
    return {
      ...summarize(one, all, rows),
      version: one.version,
      description: one.description,
      config_schema: one.configSchema ?? null,
      requires: one.requires.map(({ plugin, commands, version: range }) => ({
        plugin,
        commands: [...commands],
        version: range ?? null,
      })),
      provides: listProvisions(
        one.slug,
        addressWebhooks(one.provides, { slug: one.slug, tenant: engine.tenant }),
      ),
      hash: one.hash,
      place: engine.tenant === undefined ? one.place : null,
    };
  },
});

/** `types` are the types of directives; handlers may request some of them. */
export const makeValidatePackage = (types: () => readonly DirectiveType<object>[]) =>
  defineOperation({
    name: 'package.validate',
    summary: 'Check whether a directory is a valid package, and report its problems.',
    effect: 'read',
    scope: 'packages:ro',
    needs: 'files',
    input: z.strictObject({
      directory: nonBlankText().describe('the directory with its package.yaml'),
      config: z
        .record(z.string(), z.unknown())
        .optional()
        .describe('configuration of an installation, to check what the package provides too'),
    }),
    output: z.object({
      valid: z.boolean(),
      slug: z.string().nullable(),
      version: z.string().nullable(),
      hash: z.string().nullable(),
      problems: pluginProblemsShape,
    }),
    errors: ['INPUT_INVALID'],
    http: { absent: 'it reads a directory of the machine where you run it' },
    cli: {
      positionals: ['directory'],
      paths: ['directory'],
      flags: { config: '--with <json>' },
      examples: [
        'ductile package validate ./packages/folder-notify',
        'ductile package validate . --with \'{"folder":"/srv/in"}\'',
      ],
      exitCode: ({ valid }) => (valid === true ? 0 : 1),
    },
    run: (_context, { directory, config }) => {
      const found = readPackage(directory);
      const contentProblems =
        found.package === undefined
          ? []
          : checkContent(found.package, config, findHandlerTypes(types()));
      const problems = [...found.problems, ...contentProblems].map(showPluginProblem);
      return Promise.resolve({
        valid: problems.length === 0,
        slug: found.package?.slug ?? null,
        version: found.package?.version ?? null,
        hash: found.package?.hash ?? null,
        problems,
      });
    },
  });

/** Checks everything that a package provides if there is a configuration, otherwise only its handlers. */
function checkContent(
  one: Package,
  config: Readonly<Record<string, unknown>> | undefined,
  types: HandlerTypes,
) {
  if (config !== undefined) return checkFilled(one, config as JsonObject, types);
  return checkPackageHandlers(one, one.provides, types);
}

function checkFilled(one: Package, given: JsonObject, types: HandlerTypes) {
  const { provides, faults } = fillProvides(one.provides, withDefaults(one.configSchema, given));
  const { slug: name, version: at, place } = one;
  const { problems } = readInstallation({ id: '', slug: name, version: at, provides });
  const unfilled = faults.map(({ at: path, message }) => ({ place, key: path.join('.'), message }));
  return [...unfilled, ...problems, ...checkPackageHandlers(one, provides, types)];
}

function summarize(
  one: Package,
  all: readonly Package[],
  rows: readonly InstallationRow[],
): {
  [Key in keyof typeof summaryShape]: z.output<(typeof summaryShape)[Key]>;
} {
  const row = rows.find(({ slug: other }) => other === one.slug);
  return {
    slug: one.slug,
    version: one.version,
    versions: all.map((other) => other.version),
    title: one.title,
    category: one.category,
    installed: row?.version ?? null,
    status: row?.status ?? null,
  };
}

const time = z.string().describe('UTC, ISO 8601 with milliseconds');

const installationShape = z.object({
  installation_id: z.string(),
  package: z.string(),
  version: z.string(),
  status: z
    .enum(installationStatuses)
    .describe('`failed`: it is installed, but a process could not activate it'),
  last_error: z.string().nullable(),
  installed_by: z.string(),
  installed_at: time,
  updated_at: time,
  directive_id: z.string().describe('directive of its last change'),
});

export const listInstallationsOperation = defineOperation({
  name: 'installation.list',
  summary: 'List the installed packages.',
  effect: 'read',
  scope: 'installations:ro',
  needs: 'ledger',
  input: z.strictObject({
    all: z.boolean().default(false).describe('include uninstalled packages (default: false)'),
    ...pageFields,
  }),
  output: z.object({ installations: z.array(installationShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/installations' },
  cli: {
    examples: ['ductile installation list', 'ductile installation list --all'],
    isDefault: true,
    table: {
      rows: 'installations',
      columns: [
        ['PACKAGE', 'package'],
        ['VERSION', 'version'],
        ['STATUS', 'status'],
        ['BY', 'installed_by'],
        ['SINCE', 'installed_at'],
        ['ERROR', 'last_error'],
        ['ID', 'installation_id', 'detail'],
      ],
      empty: 'No packages are installed. Install one with `ductile package install <package>`.',
    },
  },
  async run({ engine: { ledger } }, { all, ...request }) {
    const rows = await ledger.installations.list({ withEnded: all });
    const { page, next } = cutPage(
      rows,
      ({ slug, installedAt, id }) => `${slug} ${installedAt} ${id}`,
      request,
    );
    return { installations: page.map(show), next_cursor: next };
  },
});

export const showInstallation = defineOperation({
  name: 'installation.show',
  summary: 'Show an installation, its configuration and what it provides.',
  effect: 'read',
  scope: 'installations:ro',
  needs: 'ledger',
  input: z.strictObject({
    installation: nonBlankText().describe('id of the installation, or name of its package'),
  }),
  output: z.object({
    ...installationShape.shape,
    revision: z.int().describe('revision, which grows by one with each change'),
    hash: z.string().describe('BLAKE3 of the files of the package'),
    config: z.record(z.string(), z.unknown()),
    provisions: z.array(
      z.object({
        kind: z.string(),
        name: z.string(),
        provisioned_at: time,
        removed_at: time.nullable(),
      }),
    ),
  }),
  errors: ['INPUT_INVALID', 'INSTALLATION_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/installations/:installation' },
  cli: {
    positionals: ['installation'],
    examples: ['ductile installation show folder-notify'],
  },
  async run({ engine: { ledger } }, { installation: wanted }) {
    const [byId] = await ledger.installations.list({ id: wanted, withEnded: true });
    const named =
      byId === undefined ? await ledger.installations.list({ slug: wanted, withEnded: true }) : [];
    const current = named.find(({ status }) => status !== 'uninstalled');
    // If all were uninstalled, show the last one.
    const row = byId ?? current ?? named.at(-1);
    if (row === undefined) {
      const message = `there is no installation ${wanted}`;
      throw new DuctileError('INSTALLATION_NOT_FOUND', message, { place: 'installation' });
    }
    const provisions = await ledger.installations.listProvisions(row.id);
    return {
      ...show(row),
      revision: row.revision,
      hash: row.hash,
      config: parseJson(row.config) as Record<string, unknown>,
      provisions: provisions.map(({ kind, name, provisionedAt, removedAt }) => ({
        kind,
        name,
        provisioned_at: provisionedAt,
        removed_at: removedAt,
      })),
    };
  },
});

function show(row: InstallationRow) {
  return showRow(installationShape, row, { installation_id: row.id, package: row.slug });
}
