import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** The node_modules directory of the peers: DUCTILE_BENCH_PEERS, or that of bench/peers. */
const directory = resolve(
  process.env['DUCTILE_BENCH_PEERS'] ??
    fileURLToPath(new URL('peers/node_modules', import.meta.url)),
);

const manifest = z.object({ version: z.string() });

/** Returns the peer's version; undefined if it isn't installed. */
export async function peerVersion(name: string): Promise<string | undefined> {
  const text = await readFile(join(directory, name, 'package.json'), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : manifest.parse(JSON.parse(text)).version;
}

export async function hasPeers(...names: readonly string[]): Promise<true | string> {
  for (const name of names) {
    if ((await peerVersion(name)) === undefined) {
      return `${name} is not installed (npm install --prefix bench/peers)`;
    }
  }
  return true;
}

/** Returns the path of a peer's file, for peers that are programs. */
export function peerFile(name: string, file: string): string {
  return join(directory, name, file);
}

/** Loads a peer. Peers aren't dependencies, so the caller declares the types that it uses. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export function loadPeer<Module>(name: string): Module {
  const module: Module = createRequire(join(directory, 'bench.cjs'))(name);
  return module;
}
