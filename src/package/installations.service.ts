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
import { checkHandlers } from './handlers.service.ts';
import { saidOfPrograms } from './compatibility.service.ts';
import type { LedgerContext } from '../engine/context.ts';

export interface InstallationKeeper {
  /** What the files say and what installations provide as one; one that does not fit is left out. */
  extend(files: Blueprint): Promise<Blueprint>;
  /** Puts on record which of them this process could not put in force, and which it could. */
  note(state: InstalledState | undefined): Promise<void>;
  /** Renews what is in force when installations have changed, here or on another host. */
  look(renew: () => Promise<unknown>): Promise<void>;
}

export function makeInstallationKeeper(
  context: LedgerContext,
  compile: (config: Config) => Blueprint,
): InstallationKeeper {
  const { ledger } = context;
  const log = context.log.child('installations');
  /** What could not be put in force is not tried again until it changes. */
  let givenUp: number | undefined;
  return {
    async extend(files) {
      const version = await ledger.installations.readVersion();
      if (version === 0) return files;
      const rows = await ledger.installations.list({});
      const inForce = rows.filter(({ status }) => status !== 'disabled').map(toInstalled);
      const { blueprint, refused } = combine(files, inForce, compile);
      for (const { slug, reason } of refused) {
        log.error('an installation is not in force', { package: slug, reason });
      }
      return { ...blueprint, base: files.config, installed: { version, refused } };
    },
    async note(state) {
      if (state === undefined) return;
      const reasons = new Map(state.refused.map(({ id, reason }) => [id, reason]));
      for (const { id, lastError } of await ledger.installations.list({})) {
        const reason = reasons.get(id) ?? null;
        if (reason !== lastError) await ledger.installations.recordError(id, reason);
      }
    },
    async look(renew) {
      // Only a running engine has something to put in force.
      if (context.state !== 'running') return;
      const version = await ledger.installations.readVersion();
      if (version === (context.generation.installed?.version ?? 0) || version === givenUp) return;
      try {
        await renew();
        givenUp = undefined;
      } catch (error) {
        // What was refused is refused again; a ledger that did not answer may answer next time.
        if (isRefusal(error)) givenUp = version;
        log.error('what is installed now could not be put in force', { error: messageOf(error) });
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

/** All of it compiled; throws what does not fit, as CONFIG_INVALID. */
export function compileWith(
  base: Config,
  installed: readonly InstalledPackage[],
  compile: (config: Config) => Blueprint,
): Blueprint {
  const config = withInstallations(base, installed);
  const problems = checkHandlers(config.handlers);
  if (problems.length > 0) throw configInvalid(problems);
  const blueprint = compile(config);
  const unheard = findUnheard(blueprint, installed);
  if (unheard.length > 0) throw configInvalid(unheard);
  return blueprint;
}

/** Who installs in a tenant is not who runs the machine, unless all who share it trust each other. */
function findUnheard(
  { config: { onlyListed, tenants }, catalog }: Blueprint,
  installed: readonly InstalledPackage[],
): Problem[] {
  if (!onlyListed || tenants.trust === 'shared') return [];
  const message = 'opens programs, files or networks, and is not for tenants to set';
  return installed.flatMap((one) =>
    saidOfPrograms(one.provides.plugins, catalog).map(({ plugin, key }) =>
      makeProblem(describeInstallation(one), keyText(['plugins', plugin, 'config', key]), message),
    ),
  );
}

/** All of them if they fit, and otherwise those that fit beside those before them. */
function combine(
  files: Blueprint,
  installed: readonly InstalledPackage[],
  compile: (config: Config) => Blueprint,
): { readonly blueprint: Blueprint; readonly refused: readonly RefusedInstallation[] } {
  if (installed.length === 0) return { blueprint: files, refused: [] };
  const whole = attempt(() => compileWith(files.config, installed, compile));
  if (whole.blueprint !== undefined) return { blueprint: whole.blueprint, refused: [] };
  let blueprint = files;
  const accepted: InstalledPackage[] = [];
  const refused: RefusedInstallation[] = [];
  for (const one of installed) {
    const next = attempt(() => compileWith(files.config, [...accepted, one], compile));
    if (next.blueprint === undefined)
      refused.push({ id: one.id, slug: one.slug, reason: next.reason });
    else {
      blueprint = next.blueprint;
      accepted.push(one);
    }
  }
  return { blueprint, refused };
}

type Attempted =
  | { readonly blueprint: Blueprint }
  | { readonly blueprint: undefined; readonly reason: string };

function attempt(make: () => Blueprint): Attempted {
  try {
    return { blueprint: make() };
  } catch (thrown) {
    if (!(thrown instanceof DuctileError) || thrown.code !== 'CONFIG_INVALID') throw thrown;
    return { blueprint: undefined, reason: thrown.message };
  }
}
