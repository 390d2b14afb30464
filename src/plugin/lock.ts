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
  const all = new Map<string, PluginFiles>([...plugins, ...byName]);
  return new Map([...all].map(([name, files]) => [name, hashFiles(files, hash)]));
}

/**
 * Compares the plugins with the lock. Their code runs with the rights of the service, so it is
 * checked like the configuration files. A removed plugin isn't reported.
 */
export function findPluginDrift({ file }: Config, { plugins }: Catalog): Problem[] {
  const locked = findLockedPlugins(readLock(dirname(file)));
  if (locked === undefined) return [];
  const hash = makeHash();
  return [...plugins.values()].flatMap((plugin) => {
    // The lock has the plugin with the code; the definitions of an installation are in the database.
    const before = locked.get(plugin.uses ?? plugin.name) ?? locked.get(plugin.name);
    return compare(plugin, before, hash);
  });
}

function compare(plugin: Plugin, before: PluginHashes | undefined, hash: Hash): Problem[] {
  const key = keyText(['plugins', plugin.name]);
  const drift = (file: string, message: string): Problem => makeProblem(file, key, message, RELOCK);
  if (before === undefined) return [drift(manifestOf(plugin), 'was never locked')];
  const now = hashFiles(plugin, hash);
  return [
    ...(now.manifest === before.manifest
      ? []
      : [drift(manifestOf(plugin), 'has a different manifest than when it was locked')]),
    ...(now.entrypoint === before.entrypoint
      ? []
      : [drift(plugin.entrypoint, 'has a different program than when it was locked')]),
  ];
}

type Hash = (file: string) => string;

/** Creates a function that hashes each file once; aliases share files. */
function makeHash(): Hash {
  const known = new Map<string, string>();
  return (file) => {
    const hash = known.get(file) ?? hashOf(file);
    known.set(file, hash);
    return hash;
  };
}

/** Hashes a file. The result for a file that can't be read differs from every hash. */
function hashOf(file: string): string {
  try {
    return blake3(readFileSync(file));
  } catch (error) {
    return messageOf(error);
  }
}

type PluginFiles = Pick<Plugin, 'directory' | 'entrypoint'>;

function hashFiles(files: PluginFiles, hash: Hash): PluginHashes {
  return { manifest: hash(manifestOf(files)), entrypoint: hash(files.entrypoint) };
}

function manifestOf({ directory }: PluginFiles): string {
  return join(directory, MANIFEST_FILE);
}

const RELOCK = 'Review the change, then run `ductile config lock` to accept it.';
