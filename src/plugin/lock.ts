import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { blake3 } from '../base/blake3.ts';
import { messageOf } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { readLock, findLockedPlugins, type PluginHashes } from '../config/integrity.ts';
import { keyText } from '../config/document.ts';
import { makeProblem } from '../config/problem.ts';
import type { Problem } from '../config/problem.ts';
import type { Catalog, Plugin } from './catalog.ts';
import { MANIFEST_FILE } from './manifest.ts';

/**
 * Hashes the plugins for the lock: those that can run, and all others under the roots, since an
 * installation may use them.
 */
export function hashPlugins({ plugins, sources: { byName } }: Catalog): Map<string, PluginHashes> {
  const hash = makeHash();
  // The name of a plugin in the roots means its own code, even if an alias hides it.
  const coded = new Map<string, PluginFiles>([...plugins, ...byName]);
  return new Map([...coded].map(([name, one]) => [name, seal(one, hash)]));
}

/**
 * Compares the plugins with the lock. Their code runs with the rights of the service, so it is
 * checked like the configuration files. A removed plugin isn't reported.
 */
export function findPluginDrift({ file }: Config, { plugins }: Catalog): Problem[] {
  const sealed = findLockedPlugins(readLock(dirname(file)));
  if (sealed === undefined) return [];
  const hash = makeHash();
  return [...plugins.values()].flatMap((plugin) => {
    // Compares by the plugin that has the code: definitions of an installation are in the database,
    // not in the lock.
    const before = sealed.get(plugin.uses ?? plugin.name) ?? sealed.get(plugin.name);
    return compare(plugin, before, hash);
  });
}

function compare(plugin: Plugin, before: PluginHashes | undefined, hash: Hash): Problem[] {
  const key = keyText(['plugins', plugin.name]);
  const drift = (file: string, message: string): Problem => makeProblem(file, key, message, RELOCK);
  if (before === undefined) return [drift(manifestOf(plugin), 'was never locked')];
  const now = seal(plugin, hash);
  return [
    ...(now.manifest === before.manifest
      ? []
      : [drift(manifestOf(plugin), 'has another manifest than when it was locked')]),
    ...(now.entrypoint === before.entrypoint
      ? []
      : [drift(plugin.entrypoint, 'has another program than when it was locked')]),
  ];
}

type Hash = (file: string) => string;

/** Reads each file once; aliases share files. */
function makeHash(): Hash {
  const known = new Map<string, string>();
  return (file) => {
    const hash = known.get(file) ?? hashOf(file);
    known.set(file, hash);
    return hash;
  };
}

/** A file that can't be read differs from the locked one. */
function hashOf(file: string): string {
  try {
    return blake3(readFileSync(file));
  } catch (error) {
    return messageOf(error);
  }
}

type PluginFiles = Pick<Plugin, 'directory' | 'entrypoint'>;

function seal(coded: PluginFiles, hash: Hash): PluginHashes {
  return { manifest: hash(manifestOf(coded)), entrypoint: hash(coded.entrypoint) };
}

function manifestOf({ directory }: PluginFiles): string {
  return join(directory, MANIFEST_FILE);
}

const RELOCK = 'See what changed, then accept it with `ductile config lock`.';
