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
 * What is written down of plugins when the configuration is locked: of those that can be run, and of
 * all others that were found, since an installation may use them.
 */
export function sealPlugins({ plugins, bases: { bases } }: Catalog): Map<string, PluginHashes> {
  const hash = makeHash();
  // Under the name of a plugin in the roots stands its own code, also where an alias hides it.
  const coded = new Map<string, Coded>([...plugins, ...bases]);
  return new Map([...coded].map(([name, one]) => [name, seal(one, hash)]));
}

/**
 * How the plugins differ from what was locked: their code runs with the rights of this process, so it
 * is watched as the files of the configuration are. One that is gone runs nothing and is not missed.
 */
export function findPluginDrift({ file }: Config, { plugins }: Catalog): Problem[] {
  const sealed = findLockedPlugins(readLock(dirname(file)));
  if (sealed === undefined) return [];
  const hash = makeHash();
  return [...plugins.values()].flatMap((plugin) => {
    // By whose code it is: what an installation brings is on the ledger, and not in the lock.
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

/** Aliases share their files; each file is read once. */
function makeHash(): Hash {
  const known = new Map<string, string>();
  return (file) => {
    const hash = known.get(file) ?? hashOf(file);
    known.set(file, hash);
    return hash;
  };
}

/** What cannot be read any more is not what was locked. */
function hashOf(file: string): string {
  try {
    return blake3(readFileSync(file));
  } catch (error) {
    return messageOf(error);
  }
}

type Coded = Pick<Plugin, 'directory' | 'entrypoint'>;

function seal(coded: Coded, hash: Hash): PluginHashes {
  return { manifest: hash(manifestOf(coded)), entrypoint: hash(coded.entrypoint) };
}

function manifestOf({ directory }: Coded): string {
  return join(directory, MANIFEST_FILE);
}

const RELOCK = 'See what changed, then accept it with `ductile config lock`.';
