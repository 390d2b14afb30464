import { toCanonicalJson, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { blake3 } from '../base/blake3.ts';
import * as z from 'zod';
import { strictSection, nonBlankText } from '../base/fields.ts';
import { parseRange, parseVersion } from './version.ts';

/** A package as its manifest says it: metadata alone, never code. */
export interface Package {
  readonly slug: string;
  /** Semantic version. */
  readonly version: string;
  readonly title: string;
  readonly description: string;
  readonly category: string;
  /** JSON Schema of what whoever installs it has to say. */
  readonly configSchema: JsonObject | undefined;
  readonly requires: readonly RequiredPlugin[];
  /** What it provisions, with `${config.x}` where the installer's words go. */
  readonly provides: Provides;
  /** BLAKE3 over all of its files, with their names. */
  readonly hash: string;
  /** Its directory, absolute. */
  readonly directory: string;
  readonly place: string;
}

export interface RequiredPlugin {
  readonly plugin: string;
  readonly commands: readonly string[];
  /** A range of its version, such as `>=1.2.0`; any when undefined. */
  readonly version: string | undefined;
}

/** In the words of the configuration file; each kind is read by the reader of the same key there. */
export interface Provides {
  readonly plugins: JsonObject;
  readonly routes: readonly JsonObject[];
  readonly pipelines: readonly JsonObject[];
  readonly handlers: readonly JsonObject[];
  /** Without their secrets; rows of the ledger from the installation on. */
  readonly webhooks: readonly JsonObject[];
}

/** What an installation was given, as it is on record; older ones know fewer kinds. */
export function readProvides(provisioned: string): Provides {
  return { webhooks: [], ...(parseJson(provisioned) as Omit<Provides, 'webhooks'>) };
}

/** Whoever acts for an installation is called so, with its slug behind. */
export const INSTALLATION_ACTOR = 'installation:';

/** Returns the actor of a package's handlers. It has the rights of an admin of its ledger. */
export function installationActor(slug: string): string {
  return `${INSTALLATION_ACTOR}${slug}`;
}

export function isInstallation(actor: string): boolean {
  return actor.startsWith(INSTALLATION_ACTOR);
}

/** Returns the slug of the package that an actor acts for. Undefined if it isn't an installation. */
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
