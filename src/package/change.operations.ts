import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import { compact, isObject, type JsonObject } from '../base/json.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective, textIn } from '../operation/request-directive.ts';
import { packageField } from './operations.ts';

const config = z
  .record(z.string(), z.unknown())
  .describe('what its config_schema asks for; secrets as credential:<name>');
const version = nonBlankText()
  .max(64)
  .default('latest')
  .describe('`latest` is the newest that is no trial');

const output = z.object({
  installation_id: z.string(),
  package: z.string(),
  version: z.string(),
  provisioned: z.record(z.string(), z.int()).optional().describe('how many of each kind it brings'),
  webhooks: z
    .array(
      z.object({
        id: z.string(),
        path: z.string(),
        secret: z.string().nullable().describe('the one that was made for it, shown this once'),
      }),
    )
    .optional()
    .describe('those that it brings'),
  directive_id: z.string().describe('the record of this change'),
});

const errors = [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'] as const;
const packageErrors = [
  ...errors,
  'CREDENTIAL_KEY_INVALID',
  'CREDENTIAL_KEY_MISSING',
  'CREDENTIAL_NOT_FOUND',
  'PACKAGE_INVALID',
  'PACKAGE_NOT_FOUND',
  'PACKAGE_REFUSED',
  'WEBHOOK_EXISTS',
] as const;

export const installPackage = defineOperation({
  name: 'package.install',
  summary: 'Install a package: what it provides is in force at once, or nothing has changed.',
  effect: 'write',
  scope: 'packages:rw',
  input: z.strictObject({ package: packageField, version, config: config.default({}) }),
  output,
  errors: [...packageErrors, 'PACKAGE_INSTALLED'],
  http: { method: 'POST', path: '/packages/:package/install', isSecret: true },
  cli: {
    positionals: ['package'],
    flags: { config: '--with <json>', version: '--at <version>' },
    examples: [
      'ductile package install folder-notify --with \'{"folder":"/srv/in","file":"/srv/told"}\'',
      'ductile package install site-watch --config-file site.json --dry-run',
    ],
  },
  run: (context, input) => change(context, 'package.install', toInstall(input)),
  plan: (context, input) => planDirective(context, 'package.install', toInstall(input)),
});

export const upgradePackage = defineOperation({
  name: 'package.upgrade',
  summary: 'Put another version or configuration of an installed package in force.',
  effect: 'write',
  scope: 'packages:rw',
  input: z.strictObject({
    package: packageField,
    version,
    config: config.optional().describe('as it is, unless told'),
    allow_downgrade: z.boolean().default(false).describe('whether it may go to an older version'),
  }),
  output,
  errors: [...packageErrors, 'INSTALLATION_NOT_FOUND'],
  http: { method: 'POST', path: '/packages/:package/upgrade', isSecret: true },
  cli: {
    positionals: ['package'],
    flags: { config: '--with <json>', version: '--at <version>' },
    examples: [
      'ductile package upgrade folder-notify --dry-run',
      'ductile package upgrade folder-notify --at 1.0.0 --allow-downgrade',
    ],
  },
  run: (context, input) => change(context, 'package.upgrade', toUpgrade(input)),
  plan: (context, input) => planDirective(context, 'package.upgrade', toUpgrade(input)),
});

export const enablePackage = switchOperation(
  'enable',
  'Put an installation in force again after it was disabled.',
);
export const disablePackage = switchOperation(
  'disable',
  'Take what an installation provides out of force, and keep it.',
);

export const uninstallPackage = defineOperation({
  name: 'package.uninstall',
  summary: 'Take away what an installation provides; its record stays.',
  effect: 'destroy',
  scope: 'packages:rw',
  input: z.strictObject({
    package: packageField,
    purge: z.boolean().default(false).describe('whether the state and facts of its plugins go too'),
  }),
  output,
  errors: [...errors, 'INSTALLATION_NOT_FOUND'],
  http: { method: 'POST', path: '/packages/:package/uninstall' },
  cli: {
    positionals: ['package'],
    examples: ['ductile package uninstall folder-notify --dry-run'],
  },
  run: (context, input) => change(context, 'package.uninstall', toInstall(input)),
  plan: (context, input) => planDirective(context, 'package.uninstall', toInstall(input)),
});

function switchOperation(verb: 'enable' | 'disable', summary: string) {
  const type = `package.${verb}` as const;
  return defineOperation({
    name: type,
    summary,
    effect: 'write',
    scope: 'packages:rw',
    input: z.strictObject({ package: packageField }),
    output,
    errors: [...errors, 'INSTALLATION_NOT_FOUND', 'PACKAGE_REFUSED'],
    http: { method: 'POST', path: `/packages/:package/${verb}` },
    cli: { positionals: ['package'], examples: [`ductile package ${verb} folder-notify`] },
    run: (context, input) => change(context, type, { package_slug: input.package }),
    plan: (context, input) => planDirective(context, type, { package_slug: input.package }),
  });
}

async function change(
  context: Context,
  type: string,
  params: object,
): Promise<z.output<typeof output>> {
  const { id, result } = await direct(context, type, params);
  const { provisioned } = result;
  return {
    installation_id: textIn(result, 'installation_id'),
    package: textIn(result, 'package_slug'),
    version: textIn(result, 'version'),
    ...(provisioned === undefined ? {} : { provisioned: provisioned as Record<string, number> }),
    ...showWebhooks(result),
    directive_id: id,
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

function toInstall({ package: name, ...rest }: { readonly package: string }): object {
  return { package_slug: name, ...rest };
}

function toUpgrade(input: { readonly package: string; readonly config?: unknown }): object {
  const { package: name, config: given, ...rest } = input;
  return { package_slug: name, ...rest, ...compact({ config: given }) };
}
