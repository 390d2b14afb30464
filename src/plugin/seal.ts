import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { blake3 } from '../base/blake3.ts';
import { messageOf } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { isInstalledAt } from '../config/installed.ts';
import { readManifest, sealedIn } from '../config/integrity.ts';
import type { Seal } from '../config/integrity.ts';
import { keyText } from '../config/document.ts';
import { makeProblem } from '../config/problem.ts';
import type { Problem } from '../config/problem.ts';
import type { Catalog, Plugin } from './catalog.ts';
import { MANIFEST_FILE } from './manifest.ts';

/** What is written down of the plugins that can be run when the configuration is locked. */
export function sealPlugins({ plugins }: Catalog): Map<string, Seal> {
  const hash = makeHash();
  return new Map([...plugins.values()].map((plugin) => [plugin.name, seal(plugin, hash)]));
}

/**
 * How the plugins differ from what was locked: their code runs with the rights of this process, so it
 * is watched as the files of the configuration are. One that is gone runs nothing and is not missed, and
 * one that an installation brings has the code of another, which is watched by its own name.
 */
export function findPluginDrift({ file, plugins: settings }: Config, catalog: Catalog): Problem[] {
  const sealed = sealedIn(readManifest(dirname(file)));
  if (sealed === undefined) return [];
  const hash = makeHash();
  const own = [...catalog.plugins.values()].filter(
    ({ name }) => !isInstalledAt(settings[name]?.place ?? ''),
  );
  return own.flatMap((plugin) => compare(plugin, sealed.get(plugin.name), hash));
}

function compare(plugin: Plugin, before: Seal | undefined, hash: Hash): Problem[] {
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

function seal(plugin: Plugin, hash: Hash): Seal {
  return { manifest: hash(manifestOf(plugin)), entrypoint: hash(plugin.entrypoint) };
}

function manifestOf({ directory }: Plugin): string {
  return join(directory, MANIFEST_FILE);
}

const RELOCK = 'See what changed, then accept it with `ductile config lock`.';
