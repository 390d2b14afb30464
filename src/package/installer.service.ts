import type { LedgerContext } from '../engine/context.ts';
import { findCredentials, parseCredentialRef } from '../base/credential-ref.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { compact, toCanonicalJson, isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { hasPlaceholder } from '../config/interpolate.ts';
import type { Config } from '../config/config.ts';
import { keyText, type KeyPath } from '../config/document.ts';
import { describeInstallation, type InstalledPackage } from '../config/installed.ts';
import { packageInvalid } from '../config/packages.ts';
import { makeProblem } from '../config/problem.ts';
import type { InstallationContent, InstallationRow } from './types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { configChecksum, type Package } from './package.ts';
import { addressWebhooks, fillProvides, listProvisions, withDefaults } from './provision.ts';
import { findMismatch } from '../plugin/payload.ts';
import { findSecret } from '../signal/mask.ts';
import type { Blueprint } from '../engine/generation.ts';
import { compileWith, toInstalled } from './installations.service.ts';
import { checkFit, checkTargets } from './compatibility.service.ts';
import { refuseWebhookTargets } from './webhooks.service.ts';

/** The current installations, to plan a change with. */
export interface InstallationsState {
  /** The version that the change must still find when it is written. */
  readonly version: number;
  readonly rows: readonly InstallationRow[];
}

export async function readInstallations(ledger: Ledger): Promise<InstallationsState> {
  // Read the version first, so that a change in between makes the plan stale.
  const version = await ledger.installations.readVersion();
  return { version, rows: await ledger.installations.list({}) };
}

/** Creates the content of an installation, and checks it apart from other installations. */
export async function createContent(
  found: Package,
  given: JsonObject,
  { ledger, tenant }: LedgerContext,
): Promise<InstallationContent> {
  const { slug, version, hash, configSchema } = found;
  const config = withDefaults(configSchema, given);
  refusePlaceholders(config, ['config']);
  refuseUnstorable(given);
  await refuseMismatch(found, config);
  const { provides: filled, faults } = fillProvides(found.provides, config);
  if (faults.length > 0) {
    throw packageInvalid(
      faults.map(({ at, message }) => makeProblem(found.place, keyText(at), message)),
    );
  }
  const provides = addressWebhooks(filled, { slug, tenant: tenant?.slug });
  refuseSecrets(provides.plugins, 'plugins');
  await refuseUnknownCredentials(provides.plugins, ledger);
  return {
    version,
    hash,
    config: toCanonicalJson(given),
    configChecksum: configChecksum(given),
    provisioned: toCanonicalJson(provides),
    provisions: listProvisions(slug, provides),
  };
}

/**
 * Refuses an installation that doesn't fit: its names are in use, plugins are missing, or pipelines don't
 * compile. `others` are the installations that don't change.
 */
export function refuseUnfit(
  found: Package | undefined,
  one: InstalledPackage,
  others: readonly InstallationRow[],
  { generation }: LedgerContext,
  compile: (config: Config) => Blueprint,
): void {
  const { catalog, base, config } = generation;
  const fault = checkFit({ found, one, others, catalog });
  if (fault !== undefined) throw createRefusal(one, fault.message, fault.hint);
  const active = others.filter(({ status }) => status === 'installed').map(toInstalled);
  let next: Blueprint;
  try {
    next = compileWith(base ?? config, [...active, one], compile);
  } catch (thrown) {
    throw createRefusal(one, messageOf(thrown));
  }
  const own = Object.keys(one.provides.plugins);
  const bad = next.catalog.problems.find(({ plugin }) => own.includes(plugin));
  if (bad !== undefined) throw createRefusal(one, `${bad.key} ${bad.message}`, bad.hint);
  const unmet =
    checkFit({ found, one, others: [], catalog: next.catalog, isActive: true }) ??
    (found === undefined ? undefined : checkTargets(found, one, next));
  if (unmet !== undefined) throw createRefusal(one, unmet.message, unmet.hint);
  refuseWebhookTargets(one, next);
}

function createRefusal(one: InstalledPackage, message: string, hint?: string): DuctileError {
  return new DuctileError('PACKAGE_REFUSED', message, {
    place: describeInstallation(one),
    ...compact({ hint }),
  });
}

/** Refuses `${…}`: the configuration isn't interpolated, so the text would become the value. */
function refusePlaceholders(value: Json, path: KeyPath): void {
  if (isObject(value) || Array.isArray(value)) {
    for (const [key, inner] of Object.entries(value)) {
      refusePlaceholders(inner, [...path, Array.isArray(value) ? Number(key) : key]);
    }
  }
  if (typeof value !== 'string' || !hasPlaceholder(value)) return;
  const key = keyText(path);
  const message = `${key} has a \`\${\`, and placeholders are not replaced in an installation`;
  const hint = 'Write the value itself, credential:NAME for a secret, or $${ for the text ${.';
  throw new DuctileError('INPUT_INVALID', message, { place: key, hint });
}

/** Refuses configurations that are too large, or contain secrets: they are recorded for ever. */
function refuseUnstorable(config: JsonObject): void {
  if (Buffer.byteLength(JSON.stringify(config)) > limits.packageConfigBytesMax) {
    const message = `config has more than ${limits.packageConfigBytesMax} bytes`;
    throw new DuctileError('INPUT_INVALID', message, { place: 'config' });
  }
  refuseSecrets(config, 'config');
}

function refuseSecrets(value: JsonObject, root: string): void {
  const secret = findSecret(withoutReferences(value), root);
  if (secret === undefined) return;
  throw new DuctileError(
    'INPUT_INVALID',
    `${secret.path} ${secret.rule}, and would be stored unencrypted`,
    {
      place: secret.path,
      hint: 'Store it with `ductile credential set NAME`, and write credential:NAME here.',
    },
  );
}

function withoutReferences(value: Json): Json {
  if (typeof value === 'string') return parseCredentialRef(value) === undefined ? value : '';
  if (Array.isArray(value)) return value.map(withoutReferences);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, withoutReferences(inner)]),
  );
}

async function refuseMismatch(found: Package, config: JsonObject): Promise<void> {
  const { slug, configSchema } = found;
  if (configSchema === undefined) {
    const [key] = Object.keys(config);
    if (key === undefined) return;
    const message = `config.${key} is not allowed: ${slug} has no config_schema`;
    throw new DuctileError('INPUT_INVALID', message, { place: `config.${key}` });
  }
  let mismatch: Awaited<ReturnType<typeof findMismatch>>;
  try {
    mismatch = await findMismatch(`config_schema of ${slug}`, configSchema, config, 'config');
  } catch (thrown) {
    throw packageInvalid([makeProblem(found.place, 'config_schema', messageOf(thrown))]);
  }
  if (mismatch === undefined) return;
  const { place, message } = mismatch;
  throw new DuctileError('INPUT_INVALID', `${place} ${message}`, {
    place,
    hint: `Run \`ductile package show ${slug}\` to see its configuration.`,
  });
}

async function refuseUnknownCredentials(plugins: JsonObject, ledger: Ledger): Promise<void> {
  for (const { name, path } of findCredentials(plugins)) {
    if ((await ledger.credentials.find(name)) !== undefined) continue;
    throw new DuctileError('CREDENTIAL_NOT_FOUND', `there is no credential ${name}`, {
      place: keyText(['plugins', ...path]),
      hint: `Store it first with \`ductile credential set ${name}\`.`,
    });
  }
}
