import { toCanonicalJson, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { blake3 } from '../base/blake3.ts';
import * as z from 'zod';
import { strictSection, nonBlankText } from '../base/fields.ts';
import { parseRange, parseVersion } from './version.ts';

/** A package as its manifest describes it. It contains metadata and no code. */
export interface Package {
  readonly slug: string;
  /** Semantic version. */
  readonly version: string;
  readonly title: string;
  readonly description: string;
  readonly category: string;
  /** The JSON Schema of the installer's configuration. */
  readonly configSchema: JsonObject | undefined;
  readonly requires: readonly RequiredPlugin[];
  /** The entries that it adds to a ledger, with `${config.x}` for values of the installer. */
  readonly provides: Provides;
  /** The BLAKE3 hash of all its files and their names. */
  readonly hash: string;
  /** The absolute path of its directory. */
  readonly directory: string;
  readonly place: string;
}

export interface RequiredPlugin {
  readonly plugin: string;
  readonly commands: readonly string[];
  /** A range of versions, such as `>=1.2.0` (default: any). */
  readonly version: string | undefined;
}

/** Entries in the format of the configuration file, which the reader of the same key parses. */
export interface Provides {
  readonly plugins: JsonObject;
  readonly routes: readonly JsonObject[];
  readonly pipelines: readonly JsonObject[];
  readonly handlers: readonly JsonObject[];
  /** Without secrets. The installation makes them rows of the ledger. */
  readonly webhooks: readonly JsonObject[];
}

/** Parses what an installation has recorded. Records of older versions have no webhooks. */
export function readProvides(provisioned: string): Provides {
  return { webhooks: [], ...(parseJson(provisioned) as Omit<Provides, 'webhooks'>) };
}

/** The prefix of actors that are installations; the slug of the package follows. */
const INSTALLATION_ACTOR = 'installation:';

/** Returns the actor of an installation, which has the rights of an admin of its ledger. */
export function installationActor(slug: string): string {
  return `${INSTALLATION_ACTOR}${slug}`;
}

export function isInstallation(actor: string): boolean {
  return actor.startsWith(INSTALLATION_ACTOR);
}

/** Returns the slug of the package that acts; undefined for other actors. */
export function findActingPackage(actor: string): string | undefined {
  return isInstallation(actor) ? actor.slice(INSTALLATION_ACTOR.length) : undefined;
}

export const installationStatuses = ['installed', 'disabled', 'failed', 'uninstalled'] as const;
export type InstallationStatus = (typeof installationStatuses)[number];

/** Equal configurations have equal checksums, whatever the order of their keys. */
export function configChecksum(config: JsonObject): string {
  return blake3(Buffer.from(toCanonicalJson(config)));
}

export const PACKAGE_FILE = 'package.yaml';
const PACKAGE_SPEC = 'ductile.package';

const categories = [
  'operations',
  'customer_service',
  'sales',
  'data',
  'development',
  'marketing',
  'finance',
  'hr',
] as const;

const slugPattern = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
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

/** The manifest of a package. It has no key for code. */
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

/** Explains why a key for code is refused; undefined for other keys. */
export function explainRefusedKey(key: string): { message: string; hint: string } | undefined {
  if (!codeKeys.has(key)) return undefined;
  return {
    message: 'would be code: a package contains only metadata',
    hint: 'Write a plugin, add it to a plugin root, and name it under requires.',
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

type ParsedPackage = z.output<typeof manifestSchema>;

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
    // The document was checked for values that JSON can't represent.
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
