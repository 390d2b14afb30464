import type { Config } from '../config/config.ts';
import type { IsolationOf } from '../engine/unisolated.ts';
import { findIsolation, type Isolation } from '../plugin/isolation.ts';
import { findPlace } from './place.ts';

/**
 * The same, known for as long as nothing of it changes: to find out starts a program. Whatever a reload
 * adds is hidden from what is started after it.
 */
export function makeIsolation(): IsolationOf {
  let last:
    | { readonly config: Config; readonly wish: string; readonly found: Isolation }
    | undefined;
  return (config) => {
    if (last?.config === config) return last.found;
    const { state, directory, files, pluginRoots } = config;
    const wish = JSON.stringify([state.dir, directory, files.map(({ path }) => path), pluginRoots]);
    const found = last?.wish === wish ? last.found : isolate(config);
    last = { config, wish, found };
    return found;
  };
}

/** Plugins need not see the ledgers nor who may do what; their own files they must. */
export function isolate({ state, directory, files, pluginRoots }: Config): Isolation {
  return findIsolation({
    nativePath: findPlace().nativeSpawner,
    hidden: [state.dir, directory, ...files.map(({ path }) => path)],
    readable: pluginRoots.map(({ path }) => path),
    path: process.env['PATH'],
  });
}
