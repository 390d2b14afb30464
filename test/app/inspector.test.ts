/** SIGUSR1 opens no inspector in the service, however it was started. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';
import { isAlive, parentOf } from '../support/hosts.ts';

const root = resolve(import.meta.dirname, '../..');
const script = join(root, 'bin/ductile.cjs');
const oldNode = '/usr/bin/node';
const isOld = existsSync(oldNode) && oldNode !== process.execPath;

const ways: Readonly<Record<string, readonly string[]>> = {
  'the launcher of a clone': [join(root, 'ductile')],
  'the program without a flag of Node': [process.execPath, script],
  ...(isOld ? { 'another Node that may hand over': [oldNode, script] } : {}),
};

describe.runIf(process.platform === 'linux').each(Object.entries(ways))(
  '%s',
  (_, [first, ...words]) => {
    test('takes SIGUSR1 and opens no inspector', async () => {
      const directory = await makeDirectory();
      await mkdir(join(directory, 'plugins'));
      await writeFile(join(directory, 'config.yaml'), 'plugin_roots: [plugins]\n');
      const args = [...words, 'system', 'start', '--config', directory];
      const child = spawn(first ?? '', args, {
        env: { PATH: process.env['PATH'], HOME: directory },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const gone = once(child, 'close');
      onTestFinished(async () => {
        child.kill('SIGTERM');
        await gone;
      });
      let complaints = '';
      child.stderr.on('data', (text: Buffer) => (complaints += text.toString()));
      await readyOf(child);
      const pids = familyOf(child.pid ?? 0);
      for (const pid of pids) process.kill(pid, 'SIGUSR1');
      expect(pids.map(isAlive)).toEqual(pids.map(() => true));
      // The service has responded after the signal, so it has processed it.
      await promisify(execFile)(join(root, 'ductile'), ['system', 'status', '--config', directory]);
      expect(complaints).not.toMatch(/debugger|inspector/i);
      expect(pids.flatMap(findInspector)).toEqual([]);
    });
  },
);

async function readyOf({ stdout }: ChildProcess): Promise<void> {
  if (stdout === null) throw new Error('it has no output');
  for await (const line of createInterface(stdout)) {
    if (line.includes('ductile is ready')) return;
  }
  throw new Error('it was not ready');
}

/** The process and its children: a launcher may have handed over to a newer Node. */
function familyOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  const nodes = children.filter((one) => one !== '' && isNode(Number(one))).map(Number);
  expect(nodes.every((one) => parentOf(one) === pid)).toBe(true);
  return [pid, ...nodes];
}

function isNode(pid: number): boolean {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('ductile.cjs');
}

/** Listening sockets of the process on the inspector's port, 9229. */
function findInspector(pid: number): string[] {
  const owned = new Set(
    readdirSync(`/proc/${pid}/fd`).map((fd) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${fd}`);
      } catch {
        return '';
      }
    }),
  );
  const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').split('\n');
  return lines.filter((line) => {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
    return local?.endsWith(':240D') === true && state === '0A' && owned.has(`socket:[${inode}]`);
  });
}
