import type { Config } from '../config/config.ts';
import { findIsolation, type Isolation } from '../plugin/isolation.ts';
import { findPlace } from './place.ts';

/** Plugins need not see the ledgers nor who may do what; their own files they must. */
export function isolate({ state, directory, files, pluginRoots }: Config): Isolation {
  return findIsolation({
    nativePath: findPlace().nativeSpawner,
    hidden: [state.dir, directory, ...files.map(({ path }) => path)],
    readable: pluginRoots.map(({ path }) => path),
    path: process.env['PATH'],
  });
}
