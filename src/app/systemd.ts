import { execFile } from 'node:child_process';
import type { Log } from '../base/log.ts';

/** Notifications for a service manager; without one, they do nothing. */
interface ServiceManager {
  ready(): void;
  reloading(): void;
  /** Starts reporting at intervals that the process is healthy, as long as it is. */
  watch(isSound: () => boolean): void;
  /** Resolves when everything has been sent. */
  stopping(): Promise<void>;
}

interface ServiceManagerOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  /** Sends one message (default: with `systemd-notify`). */
  readonly send?: (words: readonly string[]) => Promise<void>;
}

const PROGRAM = 'systemd-notify';
const SEND_MS_MAX = 5000;
const ATTEMPTS_MAX = 3;
const USEC_PER_MS = 1000;
const NSEC_PER_USEC = 1000n;

/**
 * Implements systemd's notification protocol. Its socket accepts datagrams, which Node can't send
 * to a path, so systemd's own program sends each message.
 */
export function findServiceManager(options: ServiceManagerOptions): ServiceManager {
  const { env, log, send = runProgram } = options;
  let last: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let isAvailable = (env['NOTIFY_SOCKET'] ?? '') !== '';

  const deliver = async (words: readonly string[]): Promise<void> => {
    for (let attempt = 1; isAvailable; attempt += 1) {
      try {
        await send(words);
        return;
      } catch (error) {
        // Without the program no message can be sent. Other errors may be temporary, and a service
        // that stops reporting would be killed although it works.
        isAvailable = !isMissing(error);
        if (!isAvailable) clearInterval(timer);
        if (isAvailable && attempt < ATTEMPTS_MAX) continue;
        log.warn('the service manager could not be notified', { message: words[0], error });
        return;
      }
    }
  };

  // Messages are sent in order: "ready" must not overtake "reloading".
  const notify = (...words: readonly string[]): void => {
    if (isAvailable) last = last.then(() => deliver(words));
  };

  return {
    ready: () => notify('READY=1'),
    reloading: () =>
      notify('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / NSEC_PER_USEC}`),
    watch(isSound) {
      const everyMs = watchdogMs(env) / 2;
      if (!isAvailable || everyMs <= 0) return;
      timer = setInterval(() => {
        if (isSound()) notify('WATCHDOG=1');
        else log.error('the process is not healthy, so the watchdog is not notified');
      }, everyMs);
      timer.unref();
    },
    async stopping() {
      clearInterval(timer);
      notify('STOPPING=1');
      await last;
    },
  };
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Returns 0 if there is no watchdog, or if it is for another process. */
function watchdogMs(env: ServiceManagerOptions['env']): number {
  const pid = env['WATCHDOG_PID'];
  // Our launcher may have handed over to a newer Node; then its process is the named one.
  const isMeant = pid === undefined || [process.pid, process.ppid].includes(Number(pid));
  const usec = Number(env['WATCHDOG_USEC'] ?? 0);
  return isMeant && Number.isFinite(usec) ? usec / USEC_PER_MS : 0;
}

function runProgram(words: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(PROGRAM, words, { timeout: SEND_MS_MAX }, (error) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
}
