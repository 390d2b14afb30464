/** Detects servers that don't get the CPU time that they need and therefore fall silent. */
import { readFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import type { Server } from '../../support/crash/server.ts';

const WATCH_MS = 200;
/** After a longer time between two checks, this program itself lacked CPU time. */
const STALL_MS = 600;
/** A server that waits for a processor for more than this part of its time. */
const STALL_SHARE = 0.3;
const NS_PER_MS = 1e6;

/** Reports, until stopped, the times from which this program or a server lacked CPU time. */
export function watchTime(
  servers: readonly Server[],
  onStarved: (fromMs: number) => void,
): { stop(): void } {
  const waited = new Map<Server, number>();
  let last = Date.now();
  const look = (): void => {
    const fromMs = last;
    last = Date.now();
    const lacks = servers
      .filter(({ isAlive }) => isAlive)
      .map((server) => {
        const before = waited.get(server) ?? 0;
        const now = waitedMs(server);
        waited.set(server, now);
        return now - before;
      });
    const passed = last - fromMs;
    if (passed > STALL_MS || lacks.some((ms) => ms > STALL_SHARE * passed)) onStarved(fromMs);
  };
  const timer = setInterval(look, WATCH_MS);
  const stop = (): void => clearInterval(timer);
  onTestFinished(stop);
  return { stop };
}

/** The time that the process was ready to run but didn't, since its start. */
function waitedMs({ pid }: Server): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / NS_PER_MS;
  } catch {
    return 0;
  }
}
