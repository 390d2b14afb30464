import { constants } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import {
  decodeSpawnerRequest,
  encodeSpawnerEvent,
  makeFrameSplitter,
  WIRE_VERSION,
  type SpawnerRequest,
  type SpawnerEvent,
} from './frames.ts';
import { isGone, killMarked, type KilledProcess } from './marks.ts';
import { NodeProcess, TIMER_MS_MAX } from './node-process.ts';
import { closeSync, readdirSync, readFileSync } from 'node:fs';
import { tryFileLock } from '../../base/file-lock.ts';

/**
 * The spawner of native/spawner.c as a Node process, for hosts without that binary. It has the same
 * arguments (lock file, marker prefix), frames and behavior, with these exceptions. Starting is
 * slower. A plugin's standard streams are sockets, not pipes. A script without `#!` runs in
 * /bin/sh. The deadline of the service pauses while the machine sleeps. A descendant that left its
 * group isn't our child: on Linux, its marker identifies it about a second after its process ended,
 * unless it cleared its environment.
 */

/** SIGUSR1 would open an inspector. */
const ignored = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGTSTP', 'SIGUSR1'] as const;
const SWEEP_PATIENCE_MS = 30_000;
const SWEEP_PAUSE_MS = 5;
const STRAYS_AFTER_MS = 1000;
const LEAVE_PATIENCE_MS = 5000;
const LOCK_RETRY_MS = 10;
const CLOSE_ON_EXEC = 0o2000000;
const STDERR = 2;

const [lockPath = '', prefix = ''] = process.argv.slice(2);
const runs = new Map<number, NodeProcess>();
let fenceAt = Infinity;
let fenceTimer: NodeJS.Timeout | undefined;
let straysTimer: NodeJS.Timeout | undefined;
let ready = false;
let leaving = false;

await main();

async function main(): Promise<void> {
  closeInherited();
  for (const signal of ignored) process.on(signal, () => {});
  process.on('uncaughtException', fail);
  process.stdout.on('error', () => {});
  process.stdin.on('error', () => {});
  process.stdin.on('close', () => void leave());
  const reader = makeFrameSplitter((frame) => handle(decodeSpawnerRequest(frame)));
  process.stdin.on('data', (chunk: Buffer) => reader.push(chunk));
  send({ type: 'hello', version: WIRE_VERSION, kind: 'node' });
  if (lockPath !== '') await acquireLock(lockPath);
  const left = prefix === '' ? undefined : await sweep(SWEEP_PATIENCE_MS);
  if (left !== undefined) {
    const message = `process ${left.pid} of an earlier attempt was killed and does not end`;
    return fail(new Error(message));
  }
  ready = true;
  send({ type: 'ready' });
}

function handle(request: SpawnerRequest): void {
  switch (request.type) {
    case 'start': {
      const run = new NodeProcess(request, send, () => onEnd(request.id));
      runs.set(request.id, run);
      if (leaving) run.refuse(constants.errno.ECANCELED, 'shutdown');
      else if (performance.now() >= fenceAt) run.refuse(constants.errno.ECANCELED, 'fenced');
      else run.begin();
      return;
    }
    case 'feed':
      runs.get(request.id)?.feed(request);
      return;
    case 'stop':
      runs.get(request.id)?.stop(request.reason);
      return;
    case 'renew':
      renew(request.ms);
      return;
    case 'bye':
      void leave();
  }
}

function send(event: SpawnerEvent): void {
  process.stdout.cork();
  for (const piece of encodeSpawnerEvent(event)) process.stdout.write(piece);
  process.stdout.uncork();
}

function renew(ms: number): void {
  clearTimeout(fenceTimer);
  fenceAt = performance.now() + ms;
  if (ms > TIMER_MS_MAX) return;
  fenceTimer = setTimeout(() => {
    for (const run of runs.values()) run.kill('fenced');
  }, ms);
}

function onEnd(id: number): void {
  runs.delete(id);
  if (prefix !== '') straysTimer ??= setTimeout(killStrays, STRAYS_AFTER_MS);
}

function killStrays(): void {
  straysTimer = undefined;
  const live = new Set([...runs.values()].map(({ marker }) => marker));
  killMarked(prefix, (marker) => live.has(marker));
}

/** Ends all processes, reports that if possible, and exits. Called when the service has ended or said bye. */
async function leave(): Promise<void> {
  if (leaving) return;
  leaving = true;
  if (!ready) process.exit(0);
  for (const run of runs.values()) run.kill('shutdown');
  if (prefix !== '') await sweep(LEAVE_PATIENCE_MS);
  const until = performance.now() + LEAVE_PATIENCE_MS;
  while (runs.size > 0 && performance.now() < until) await pause(SWEEP_PAUSE_MS);
  process.stdout.write('', () => process.exit(0));
}

/** Kills all processes and exits: no process may outlive the spawner. */
function fail(error: Error): void {
  for (const run of runs.values()) run.kill('shutdown');
  process.stderr.write(`spawner: ${error.message}\n`, () => process.exit(70));
}

/**
 * Kills processes that an earlier spawner left behind when it was killed. A new attempt must not
 * start while an old process lives, so this waits until they are gone. Returns a process that is
 * still alive at the end of the patience.
 */
async function sweep(patienceMs: number): Promise<KilledProcess | undefined> {
  const until = performance.now() + patienceMs;
  const killed = new Map<string, KilledProcess>();
  for (;;) {
    for (const found of killMarked(prefix, () => false)) {
      killed.set(`${found.pid} ${found.born}`, found);
    }
    for (const [key, found] of killed) if (isGone(found)) killed.delete(key);
    const [left] = killed.values();
    if (left === undefined || performance.now() > until) return left;
    await pause(SWEEP_PAUSE_MS);
  }
}

/**
 * Closes file descriptors that the service inherited from its parent, so that plugins don't get
 * them. Node opens all files close-on-exec, so the others aren't Node's. Only Linux lists them.
 */
function closeInherited(): void {
  if (process.platform !== 'linux') return;
  for (const fd of readdirSync('/proc/self/fd').map(Number)) {
    if (fd > STDERR && isPassedOn(fd)) closeSync(fd);
  }
}

/** Returns false for the descriptor that read the directory: it is closed by now. */
function isPassedOn(fd: number): boolean {
  let text: string;
  try {
    text = readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8');
  } catch {
    return false;
  }
  const flags = /^flags:\s+([0-7]+)$/m.exec(text)?.[1];
  return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
}

/** Waits for an earlier spawner to end, and holds the lock while this process lives. */
async function acquireLock(path: string): Promise<void> {
  while (tryFileLock(path) === undefined) await pause(LOCK_RETRY_MS);
}
