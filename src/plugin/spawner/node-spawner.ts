import { constants } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import {
  decodeRequest,
  encodeEvent,
  makeFrameReader,
  WIRE_VERSION,
  type Request,
  type SpawnerEvent,
} from './frames.ts';
import { isGone, killMarked, type KilledProcess } from './marks.ts';
import { NodeRun, TIMER_MS_MAX } from './node-process.ts';
import { closeSync, readdirSync, readFileSync } from 'node:fs';
import { tryFileLock } from '../../base/file-lock.ts';

/**
 * The second rung: the spawner of native/spawner.c as a Node process of its own, for hosts without
 * that binary. Same arguments (lock file, prefix of markers), same frames, same behaviour, except:
 * starting is slower; a plugin's standard streams are sockets, not pipes; a script without `#!` is
 * given to /bin/sh; while the machine sleeps the engine's deadline stands still; a descendant that
 * left its group is no child of ours, so it is found by its marker about a second after its run
 * ended, on Linux only, and is out of reach when it cleared its environment.
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
const runs = new Map<number, NodeRun>();
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
  const reader = makeFrameReader((frame) => handle(decodeRequest(frame)));
  process.stdin.on('data', (chunk: Buffer) => reader.push(chunk));
  send({ type: 'hello', version: WIRE_VERSION, rung: 'node' });
  if (lockPath !== '') await acquireLock(lockPath);
  const left = prefix === '' ? undefined : await sweep(SWEEP_PATIENCE_MS);
  if (left !== undefined) {
    const message = `process ${left.pid} of an earlier attempt was killed and does not end`;
    return fail(new Error(message));
  }
  ready = true;
  send({ type: 'ready' });
}

function handle(request: Request): void {
  switch (request.type) {
    case 'start': {
      const run = new NodeRun(request, send, () => onEnd(request.id));
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
  for (const piece of encodeEvent(event)) process.stdout.write(piece);
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

/** The engine is gone or said so: end everything, tell it if it still listens, and go. */
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

/** Nothing that was started may outlive the spawner, also when it is itself at its end. */
function fail(error: Error): void {
  for (const run of runs.values()) run.kill('shutdown');
  process.stderr.write(`spawner: ${error.message}\n`, () => process.exit(70));
}

/**
 * Ends what an earlier spawner of the same engine left behind, because it was killed itself. A new
 * attempt must not start while a process of the old one lives, so it waits until they are gone, and
 * returns one that is not after all of the patience.
 */
async function sweep(patienceMs: number): Promise<KilledProcess | undefined> {
  const nobody = (): boolean => false;
  const until = performance.now() + patienceMs;
  const killed = new Map<string, KilledProcess>();
  for (;;) {
    for (const one of killMarked(prefix, nobody)) killed.set(`${one.pid} ${one.born}`, one);
    for (const [key, one] of killed) if (isGone(one)) killed.delete(key);
    const [left] = killed.values();
    if (left === undefined || performance.now() > until) return left;
    await pause(SWEEP_PAUSE_MS);
  }
}

/**
 * Closes what the engine inherited from its own parent, so that it does not reach a plugin. Node
 * opens everything close-on-exec, so what is not is not Node's. Only Linux tells which those are.
 */
function closeInherited(): void {
  if (process.platform !== 'linux') return;
  for (const fd of readdirSync('/proc/self/fd').map(Number)) {
    if (fd > STDERR && isPassedOn(fd)) closeSync(fd);
  }
}

/** False also for the descriptor by which the directory was read: it is closed by now. */
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

/** Waits for an earlier spawner to be gone, and holds the lock for as long as this process lives. */
async function acquireLock(path: string): Promise<void> {
  while (tryFileLock(path) === undefined) await pause(LOCK_RETRY_MS);
}
