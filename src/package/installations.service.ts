import { DuctileError, messageOf } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { keyText } from '../config/document.ts';
import {
  describeInstallation,
  withInstallations,
  type InstalledPackage,
  type InstalledState,
  type RefusedInstallation,
} from '../config/installed.ts';
import { configInvalid, makeProblem, type Problem } from '../config/problem.ts';
import type { InstallationRow } from './types.ts';
import { readProvides } from './package.ts';
import type { Blueprint } from '../engine/generation.ts';
import { listOperatorKeys } from './compatibility.service.ts';
import type { LedgerContext } from '../engine/context.ts';

/** The installations of a ledger, as part of the active configuration. */
export interface ActiveInstallations {
  /** Adds what installations provide to the configuration. It leaves out those that don't fit. */
  extend(files: Blueprint): Promise<Blueprint>;
  /** Records which installations this process could not activate, and which it could. */
  recordErrors(state: InstalledState | undefined): Promise<void>;
  /** Renews the active configuration if installations have changed, here or on another host. */
  renewIfChanged(renew: () => Promise<unknown>): Promise<void>;
}

export function makeActiveInstallations(
  context: LedgerContext,
  compile: (config: Config) => Blueprint,
): ActiveInstallations {
  const { ledger } = context;
  const log = context.log.child('installations');
  /** The version that was refused: it isn't tried again until it changes. */
  let refusedVersion: number | undefined;
  return {
    async extend(files) {
      const version = await ledger.installations.readVersion();
      if (version === 0) return files;
      const rows = await ledger.installations.list({});
      const enabled = rows.filter(({ status }) => status !== 'disabled').map(toInstalled);
      const { blueprint, refused } = combine(files, enabled, compile);
      for (const { slug, reason } of refused) {
        log.error('an installation is not active', { package: slug, reason });
      }
      return { ...blueprint, base: files.config, installed: { version, refused } };
    },
    async recordErrors(state) {
      if (state === undefined) return;
      const reasons = new Map(state.refused.map(({ id, reason }) => [id, reason]));
      for (const { id, lastError } of await ledger.installations.list({})) {
        const reason = reasons.get(id) ?? null;
        if (reason !== lastError) await ledger.installations.recordError(id, reason);
      }
    },
    async renewIfChanged(renew) {
      // Only a running engine has an active configuration.
      if (context.state !== 'running') return;
      const version = await ledger.installations.readVersion();
      if (version === (context.generation.installed?.version ?? 0) || version === refusedVersion)
        return;
      try {
        await renew();
        refusedVersion = undefined;
      } catch (error) {
        // A refusal would be repeated. Any other error may be gone next time.
        if (isRefusal(error)) refusedVersion = version;
        log.error('the current installations could not be activated', { error: messageOf(error) });
      }
    },
  };
}

function isRefusal(error: unknown): boolean {
  if (!(error instanceof DuctileError)) return false;
  return error.code === 'CONFIG_INVALID' || error.code === 'RELOAD_REFUSED';
}

export function toInstalled({ id, slug, version, provisioned }: InstallationRow): InstalledPackage {
  return { id, slug, version, provides: readProvides(provisioned) };
}

/** Compiles the configuration with installations. Throws CONFIG_INVALID if something doesn't fit. */
export function compileWith(
  base: Config,
  installed: readonly InstalledPackage[],
  compile: (config: Config) => Blueprint,
): Blueprint {
  const config = withInstallations(base, installed);
  const blueprint = compile(config);
  const forbidden = findOperatorKeys(blueprint, installed);
  if (forbidden.length > 0) throw configInvalid(forbidden);
  return blueprint;
}

/** Finds operator keys that tenants set. Only the operator may, unless all tenants trust each other. */
function findOperatorKeys(
  { config: { onlyListed, tenants }, catalog }: Blueprint,
  installed: readonly InstalledPackage[],
): Problem[] {
  if (!onlyListed || tenants.trust === 'shared') return [];
  const message = 'gives access to programs, files or networks, so a tenant cannot set it';
  return installed.flatMap((one) =>
    listOperatorKeys(one.provides.plugins, catalog).map(({ plugin, key }) =>
      makeProblem(describeInstallation(one), keyText(['plugins', plugin, 'config', key]), message),
    ),
  );
}

/** Compiles all installations together. If that fails, each one that fits beside those before it. */
function combine(
  files: Blueprint,
  installed: readonly InstalledPackage[],
  compile: (config: Config) => Blueprint,
): { readonly blueprint: Blueprint; readonly refused: readonly RefusedInstallation[] } {
  if (installed.length === 0) return { blueprint: files, refused: [] };
  const all = tryCompile(() => compileWith(files.config, installed, compile));
  if (all.blueprint !== undefined) return { blueprint: all.blueprint, refused: [] };
  let blueprint = files;
  const accepted: InstalledPackage[] = [];
  const refused: RefusedInstallation[] = [];
  for (const one of installed) {
    const next = tryCompile(() => compileWith(files.config, [...accepted, one], compile));
    if (next.blueprint === undefined)
      refused.push({ id: one.id, slug: one.slug, reason: next.reason });
    else {
      blueprint = next.blueprint;
      accepted.push(one);
    }
  }
  return { blueprint, refused };
}

type CompileResult =
  | { readonly blueprint: Blueprint }
  | { readonly blueprint: undefined; readonly reason: string };

function tryCompile(compile: () => Blueprint): CompileResult {
  try {
    return { blueprint: compile() };
  } catch (thrown) {
    if (!(thrown instanceof DuctileError) || thrown.code !== 'CONFIG_INVALID') throw thrown;
    return { blueprint: undefined, reason: thrown.message };
  }
}
