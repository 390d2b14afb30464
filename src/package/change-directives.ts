import * as z from 'zod';
import { hasExact, type JsonObject } from '../base/json.ts';
import type { DirectiveType } from '../directive/directive.ts';

export interface InstallChoice {
  readonly package_slug: string;
  readonly version: string;
  readonly hash?: string | undefined;
  readonly config: JsonObject;
}

export interface UpgradeChoice {
  readonly package_slug: string;
  readonly version: string;
  readonly hash?: string | undefined;
  /** The new configuration (default: the current one). */
  readonly config?: JsonObject | undefined;
  readonly allow_downgrade: boolean;
  readonly installation_id?: string | undefined;
}

export interface InstallationChoice {
  readonly package_slug: string;
  /** For an uninstall: true to delete the state of its plugins, too. */
  readonly purge?: boolean | undefined;
  readonly installation_id?: string | undefined;
}

const slug = z.string().min(1).max(64).describe('its name, such as folder-notify');
const version = z.string().min(1).max(64).default('latest').describe('`latest` is the newest');
/**
 * The hash of the package. It is always recorded, so that changed files are a different request.
 */
const hash = z
  .string()
  .min(1)
  .max(64)
  .optional()
  .describe('of its files, as `package show` has it');
const config = z
  .record(z.string(), z.unknown())
  // Configuration files only have doubles, so exact numbers are refused.
  .refine((value) => !hasExact(value), 'has a number with more digits than a number can keep')
  .pipe(z.record(z.string(), z.json()))
  .describe('what its config_schema asks for');
/** Found by the slug if absent; always recorded. */
const installationId = z.string().min(1).max(64).optional();

const common = {
  scope: 'packages:rw',
  role: 'admin' as const,
  sameness: () => 'latest' as const,
  target: ({ package_slug }: { readonly package_slug: string }) => package_slug,
};

export const installType: DirectiveType<InstallChoice> = {
  ...common,
  type: 'package.install',
  summary: 'Bring what a package provides into this ledger.',
  params: z.strictObject({ package_slug: slug, version, hash, config: config.default({}) }),
};

export const upgradeType: DirectiveType<UpgradeChoice> = {
  ...common,
  type: 'package.upgrade',
  summary: 'Put another version or configuration of an installed package in force.',
  params: z.strictObject({
    package_slug: slug,
    version,
    hash,
    config: config.optional(),
    allow_downgrade: z.boolean().default(false),
    installation_id: installationId,
  }),
};

export const enableType = choiceType('package.enable', 'Put an installation in force again.');
export const disableType = choiceType(
  'package.disable',
  'Take what an installation provides out of force, and keep it.',
);
export const uninstallType: DirectiveType<InstallationChoice> = {
  ...common,
  type: 'package.uninstall',
  summary: 'Take away what an installation provides; its record stays.',
  params: z.strictObject({
    package_slug: slug,
    purge: z.boolean().default(false).describe('whether the state and facts of its plugins go too'),
    installation_id: installationId,
  }),
};

function choiceType(type: string, summary: string): DirectiveType<InstallationChoice> {
  const params = z.strictObject({ package_slug: slug, installation_id: installationId });
  return { ...common, type, summary, params };
}
