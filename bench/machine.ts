import { availableParallelism, cpus, release, totalmem, type as systemName } from 'node:os';
import { join } from 'node:path';
import type { Measures } from './frame.ts';
import { buildNative, canBuildNative } from './native.ts';
import { peerVersion } from './peers.ts';
import { describePostgres } from './postgres.ts';
import { runProgram } from './program.ts';
import { workDirectory } from './work.ts';

export interface Machine {
  /** Properties that must be equal for figures to be comparable. */
  readonly identity: readonly string[];
  /** Other conditions of this run. */
  readonly notes: readonly string[];
}

const GIB = 1024 ** 3;
const peers = [
  'graphile-worker',
  'pg-boss',
  '@dbos-inc/dbos-sdk',
  'bullmq',
  'plainjob',
  'node-red',
];

export async function describeMachine(): Promise<Machine> {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor';
  const memory = Math.round(totalmem() / GIB);
  const postgres = await describePostgres();
  const { node, sqlite } = process.versions;
  return {
    identity: [
      `${availableParallelism()} cores (${model}), ${memory} GiB, ${systemName()} ${releaseOf()}`,
      `Node ${node}, SQLite ${sqlite ?? 'unknown'} (WAL, synced before every answer)`,
    ],
    notes: [
      await describeDisk(),
      ...(postgres === undefined ? [] : [postgres]),
      ...(await describePeers()),
    ],
  };
}

/** Returns the kernel's version without the build name, which may change with every start of a virtual machine. */
function releaseOf(): string {
  return release().replace(/-.*/, '');
}

async function describeDisk(): Promise<string> {
  const available = await canBuildNative();
  if (available !== true) return `disk: not measured (${available})`;
  const command = await buildNative('fsync');
  const file = join(await workDirectory(), 'fsync');
  const inPlace = await runProgram(command, [file, '1', 'in-place']);
  const append = await runProgram(command, [file, '1', 'append']);
  return `disk: 4 KiB and fdatasync ${rateOf(inPlace)}/s in place, ${rateOf(append)}/s appending`;
}

function rateOf(measures: Measures): string {
  return Math.round(measures['rate'] ?? 0).toLocaleString('en-US');
}

async function describePeers(): Promise<string[]> {
  const found: string[] = [];
  for (const name of peers) {
    const version = await peerVersion(name);
    if (version !== undefined) found.push(`${name} ${version}`);
  }
  return found.length === 0 ? [] : [`peers: ${found.join(', ')}`];
}
