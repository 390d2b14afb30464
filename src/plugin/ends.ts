import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';

import type { ProcessEnd, ProcessExit, StopReason } from './process.ts';
import type { End } from './spawner/frames.ts';

/** Some numbers have two names (SIGABRT, SIGIOT): the first is the usual one. */
const signalNames = new Map<number, string>(
  Object.entries(constants.signals)
    .map(([name, number]): [number, string] => [number, name])
    .toReversed(),
);

export function toProcessEnd(end: End): ProcessEnd {
  return {
    exit: toExit(end),
    stopped: end.stopped,
    pid: end.pid === 0 ? undefined : end.pid,
    stdout: end.stdout,
    stdoutOverflowed: end.stdoutOverflowed,
    stderr: end.stderr,
    stderrTruncated: end.stderrTruncated,
    spawnMs: end.spawnUs / 1000,
    runMs: end.runUs / 1000,
    cpuMs: end.cpuUs === undefined ? undefined : end.cpuUs / 1000,
    memoryPeakBytes: end.memoryPeakBytes,
  };
}

/** Aborted before it was asked for. */
export function makeCancelledEnd(stopped: StopReason): ProcessEnd {
  return { ...neverRan, exit: { kind: 'unstarted', code: 'ECANCELED', hostFull: false }, stopped };
}

/** What no system call would take, such as a NUL in a path. */
export function makeInvalidEnd(): ProcessEnd {
  return { ...neverRan, exit: { kind: 'unstarted', code: 'EINVAL', hostFull: false } };
}

const neverRan: Omit<ProcessEnd, 'exit'> = {
  stopped: undefined,
  pid: undefined,
  stdout: Buffer.alloc(0),
  stdoutOverflowed: false,
  stderr: Buffer.alloc(0),
  stderrTruncated: false,
  spawnMs: 0,
  runMs: 0,
  cpuMs: undefined,
  memoryPeakBytes: undefined,
};

function toExit({ kind, code, hostFull }: End): ProcessExit {
  if (kind === 'exited') return { kind, code };
  if (kind === 'signalled') return { kind, signal: signalNames.get(code) ?? `SIG${code}` };
  return { kind, code: getSystemErrorName(-code), hostFull };
}
