import { write, writeSync } from 'node:fs';
import { limits } from './limits.ts';

export interface LineWriter {
  write(line: string): void;
}

const STANDARD_OUTPUT = 1;

/**
 * Standard output for the lines of a log. A slow reader holds up nobody, and neither does a full disk:
 * what cannot be written waits, and what does not fit any more is dropped. At the exit the rest is
 * written once, and not again and again where it is refused, as pino's own destination does for ever.
 */
export function standardOutput(): LineWriter {
  let lines: string[] = [];
  let chars = 0;
  let chunk: Buffer = Buffer.alloc(0);
  let isUnderWay = false;
  let isGone = false;

  const send = (): void => {
    if (chunk.length === 0) {
      if (lines.length === 0) return;
      chunk = Buffer.from(lines.join(''));
      lines = [];
      chars = 0;
    }
    isUnderWay = true;
    write(STANDARD_OUTPUT, chunk, (error, written) => {
      isUnderWay = false;
      if (error === null) {
        chunk = chunk.subarray(written);
        send();
      } else if (error.code === 'EPIPE') isGone = true;
      else wait(error.code === 'EAGAIN' ? limits.logAgainMs : limits.logRefusedMs);
    });
  };
  let timer: NodeJS.Timeout | undefined;
  const wait = (ms: number): void => {
    timer = setTimeout(() => {
      timer = undefined;
      send();
    }, ms).unref();
  };
  process.once('exit', () => {
    // What is under way is written by its own thread, which the exit waits for.
    const left = [...(isUnderWay ? [] : [chunk]), Buffer.from(lines.join(''))];
    if (!isGone) flush(Buffer.concat(left));
  });
  return {
    write(line) {
      if (isGone || chars + line.length > limits.logBufferBytesMax) return;
      lines.push(line);
      chars += line.length;
      if (!isUnderWay && timer === undefined) send();
    },
  };
}

function flush(bytes: Buffer): void {
  const end = performance.now() + limits.logFlushMs;
  let at = 0;
  while (at < bytes.length && performance.now() < end) {
    try {
      at += writeSync(STANDARD_OUTPUT, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, limits.logAgainMs);
    }
  }
}
