import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';

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

export const installationStatuses = ['installed', 'disabled', 'failed', 'uninstalled'] as const;
export type InstallationStatus = (typeof installationStatuses)[number];
