import { dirname } from 'node:path';
import type { Config } from '../config/config.ts';
import type { IsolationOf } from '../tenant/require-isolation.service.ts';
import { findIsolation, makeConfinedHost, type Isolation } from '../plugin/isolation.ts';
import { ownerOfTenant, toRealPath } from '../plugin/profile.ts';
import type { Host, IsolationRequest, IsolationRules, ProcessSpec } from '../plugin/process.ts';
import { findInstallPaths } from './install-paths.ts';

/**
 * Finds how plugins are confined, and remembers it until a path changes: finding it starts programs. A
 * path that a reload adds is hidden from every process that starts after it.
 */
export function makeIsolation(): IsolationOf {
  let last:
    | { readonly config: Config; readonly paths: string; readonly found: Isolation }
    | undefined;
  return (config) => {
    if (last?.config === config) return last.found;
    const { state, directory, files, pluginRoots, packageRoots } = config;
    const named = [state.dir, directory, files.map(({ path }) => path), pluginRoots, packageRoots];
    const paths = JSON.stringify(named);
    const found = last?.paths === paths ? last.found : isolate(config);
    last = { config, paths, found };
    return found;
  };
}

/** Hides the state and the configuration; plugins, packages and the program itself are read-only. */
export function isolate({ state, directory, files, pluginRoots, packageRoots }: Config): Isolation {
  const { root, nativeSpawner } = findInstallPaths();
  const roots = [...pluginRoots, ...packageRoots].map(({ path }) => path);
  return findIsolation({
    nativePath: nativeSpawner,
    hidden: toRealPaths([state.dir, directory, ...files.map(({ path }) => path)]),
    readable: toRealPaths([...roots, root, dirname(process.execPath)]),
    path: process.env['PATH'],
    uid: process.geteuid?.() ?? -1,
  });
}

/** Confines the plugins whose configuration says so; the operator's others run as they are. */
export function confineListed(host: Host, isolation: () => Isolation): Host {
  return makeConfinedHost(host, (spec) => {
    if (spec.isolation === undefined) return spec;
    return isolation().confine(spec, mergeRules(spec.isolation), `plugin ${spec.entrypoint}`);
  });
}

/** Confines every process of a tenant, unless all tenants trust each other. */
export function confineTenant(
  host: Host,
  slug: string,
  current: () => { readonly config: Config; readonly isolation: Isolation },
): Host {
  return makeConfinedHost(host, (spec: ProcessSpec) => {
    const { config, isolation } = current();
    if (config.tenants.trust === 'shared' && spec.isolation === undefined) return spec;
    const rules = mergeRules(spec.isolation, config.tenants.isolation);
    return isolation.confine(spec, rules, ownerOfTenant(slug));
  });
}

/** The first network that is set counts; lists add up. */
function mergeRules(...requests: readonly (IsolationRequest | undefined)[]): IsolationRules {
  const set = requests.filter((request) => request !== undefined);
  return {
    network: set.find(({ network }) => network !== undefined)?.network ?? 'host',
    read: set.flatMap(({ read }) => read),
    write: set.flatMap(({ write }) => write),
  };
}

/** A path that doesn't exist yet stays as it is: it must be hidden once it does. */
function toRealPaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map(toRealPath))];
}
