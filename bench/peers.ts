import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** A node_modules directory: DUCTILE_BENCH_PEERS, else the one of bench/peers. */
const directory = resolve(
  process.env['DUCTILE_BENCH_PEERS'] ??
    fileURLToPath(new URL('peers/node_modules', import.meta.url)),
);

const manifest = z.object({ version: z.string() });

/** The peer's version, or undefined when it is not installed. */
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

/** Where a file of a peer is, for peers that are programs. */
export function peerFile(name: string, file: string): string {
  return join(directory, name, file);
}

/** Peers are no dependencies, so their types are not known here: the caller states what it uses. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export function loadPeer<Module>(name: string): Module {
  const module: Module = createRequire(join(directory, 'bench.cjs'))(name);
  return module;
}
