import * as z from 'zod';
import { strictSection, nonBlankText } from '../base/fields.ts';
import type { JsonObject } from '../base/json.ts';
import type { Package } from './package.ts';
import { parseRange, parseVersion } from './version.ts';

export const PACKAGE_FILE = 'package.yaml';
export const PACKAGE_SPEC = 'ductile.package';

export const categories = [
  'operations',
  'customer_service',
  'sales',
  'data',
  'development',
  'marketing',
  'finance',
  'hr',
] as const;

export const slugPattern = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
const SLUG_RULE = 'must be lowercase letters and digits with - between them';

const version = z.string().refine((value) => parseVersion(value) !== undefined, {
  error: 'is not a version',
  params: { hint: 'Write three numbers, such as 1.2.0; in quotes if need be.', shown: true },
});

const range = z.string().refine((value) => parseRange(value) !== undefined, {
  error: 'is not a range of versions',
  params: { hint: 'Write it like ">=1.2.0 <2.0.0", "^1.2.0" or "1.2.0".', shown: true },
});

const entry = z.record(z.string(), z.unknown());

/** What a package may say. Whatever brings code of its own has no key here. */
export const manifestSchema = strictSection({
  manifest_spec: z.literal(PACKAGE_SPEC),
  manifest_version: z.literal(1),
  slug: z.string().max(64).regex(slugPattern, SLUG_RULE),
  version,
  title: nonBlankText(),
  description: nonBlankText().optional(),
  category: z.enum(categories),
  config_schema: entry.optional(),
  requires: z
    .array(
      strictSection({
        plugin: nonBlankText(),
        commands: z.array(nonBlankText()).default([]),
        version: range.optional(),
      }),
    )
    .default([]),
  plugins: z.record(z.string(), entry).default({}),
  routes: z.array(entry).default([]),
  pipelines: z.array(entry).default([]),
  handlers: z.array(entry).default([]),
  webhooks: z.array(entry).default([]),
});

/** Keys that are refused with more to say than that nobody knows them. */
export function refuseKey(key: string): { message: string; hint: string } | undefined {
  if (!codeKeys.has(key)) return undefined;
  return {
    message: 'would be code: a package is metadata alone',
    hint: 'Make it a plugin, put that into a plugin root, and name it under requires.',
  };
}

const codeKeys: ReadonlySet<string> = new Set([
  'bin',
  'code',
  'entrypoint',
  'exec',
  'install_script',
  'main',
  'plugin_roots',
  'postinstall',
  'preinstall',
  'program',
  'run',
  'script',
  'scripts',
]);

export type ParsedPackage = z.output<typeof manifestSchema>;

export function toPackage(
  parsed: ParsedPackage,
  found: Pick<Package, 'hash' | 'directory' | 'place'>,
): Package {
  const { config_schema: configSchema, plugins, routes, pipelines, handlers, webhooks } = parsed;
  return {
    slug: parsed.slug,
    version: parsed.version,
    title: parsed.title,
    description: parsed.description ?? '',
    category: parsed.category,
    // The document was scanned for what JSON cannot hold.
    configSchema: configSchema as JsonObject | undefined,
    requires: parsed.requires.map((one) => ({ ...one, version: one.version })),
    provides: {
      plugins: plugins as JsonObject,
      routes: routes as JsonObject[],
      pipelines: pipelines as JsonObject[],
      handlers: handlers as JsonObject[],
      webhooks: webhooks as JsonObject[],
    },
    ...found,
  };
}
