/** The service in its own process, which can be killed at any time. */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { waitForDeath } from '../hosts.ts';
import type { LogRecord, LogRecords } from '../instance.ts';
import { findDescendants } from '../processes.ts';

/** Root of the tested program. */
export const root = resolve(import.meta.dirname, '../../..');
const ownNode = join(root, 'node_modules/.bin/node');
const node = existsSync(ownNode) ? ownNode : process.execPath;
const OUTPUT_SHOWN = 2000;

export interface Server {
  readonly pid: number;
  /** Rejects if the service ends before it is ready. */
  readonly ready: Promise<Ready>;
  readonly exited: Promise<Exit>;
  readonly isAlive: boolean;
  readonly records: LogRecords;
  /** Output on standard error. */
  readonly complaints: string;
  signal(name: NodeJS.Signals): void;
  kill(): Promise<Exit>;
  /** Sends SIGTERM, as a service manager does. */
  stop(): Promise<Exit>;
}

export interface Ready {
  readonly control: string;
  /** Time from its start. */
  readonly ms: number;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface LaunchOptions {
  /** Configuration (default: the directory). */
  readonly config?: string | undefined;
  /** Root of another program than the tested one. */
  readonly program?: string | undefined;
  /** Registers the cleanup of the service and its spawner (default: the end of the test). */
  readonly later?: Later | undefined;
}

/** Registers a cleanup. */
export type Later = (chore: () => Promise<void>) => void;

/** Starts a service on a configuration directory. */
export function launch(
  directory: string,
  probe = '',
  more: Readonly<Record<string, string>> = {},
  { config = directory, program = root, later = onTestFinished }: LaunchOptions = {},
): Server {
  const startedAt = performance.now();
  const script = join(program, 'bin/ductile.cjs');
  const child = spawn(node, [script, 'system', 'start', '--config', config], {
    cwd: directory,
    env: { PATH: process.env['PATH'], HOME: directory, DUCTILE_PROBE: probe, ...more },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { pid = 0 } = child;
  const records: LogRecord[] = [];
  let complaints = '';
  let exit: Exit | undefined;
  child.stderr.on('data', (text: Buffer) => (complaints += text.toString()));
  const exited = new Promise<Exit>((done) => {
    child.once('close', (code, signal) => done((exit = { code, signal })));
  });
  const ready = new Promise<Ready>((done, failed) => {
    createInterface(child.stdout).on('line', (line) => {
      const record = parseLine(line);
      if (record === undefined) return;
      records.push(record);
      if (record.message !== 'ductile is ready') return;
      done({ control: String(record['control']), ms: performance.now() - startedAt });
    });
    void exited.then(({ code, signal }) => {
      const output = `${JSON.stringify(records.slice(-5))} ${complaints}`.slice(-OUTPUT_SHOWN);
      failed(new Error(`the server ended with ${signal ?? code} before it was ready: ${output}`));
    });
  });
  later(cleanerOf(child, ready, exited));
  return {
    pid,
    ready,
    exited,
    get isAlive() {
      return exit === undefined;
    },
    records,
    get complaints() {
      return complaints;
    },
    signal: (name) => void child.kill(name),
    kill() {
      child.kill('SIGKILL');
      return exited;
    },
    stop() {
      child.kill('SIGTERM');
      return exited;
    },
  };
}

/** Returns undefined for an incomplete line, which a kill can leave. */
function parseLine(line: string): LogRecord | undefined {
  try {
    return JSON.parse(line) as LogRecord;
  } catch {
    return undefined;
  }
}

/** Finds the spawner of a service. */
export async function findSpawner(serverPid: number): Promise<number | undefined> {
  const found = (await findDescendants(serverPid)).find(
    ({ parent, command }) => parent === serverPid && command.includes('spawner'),
  );
  return found?.pid;
}

function cleanerOf(
  child: ChildProcess,
  ready: Promise<Ready>,
  exited: Promise<Exit>,
): () => Promise<void> {
  const spawner = ready.then(
    () => findSpawner(child.pid ?? 0),
    () => undefined,
  );
  return async () => {
    child.kill('SIGKILL');
    await exited;
    const pid = await spawner;
    if (pid !== undefined) await waitForDeath(pid);
  };
}
