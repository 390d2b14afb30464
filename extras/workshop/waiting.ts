import { spawn } from 'node:child_process';
import { monotonicMs } from '../../src/base/clock.ts';
import type { ProcessSpec } from '../../src/plugin/process.ts';
import { sendSignal } from '../../src/plugin/spawner/marks.ts';

export interface Waited {
  /** What it printed, or that it ended, before anybody asked anything. */
  readonly spoiled: string | undefined;
  /** From SIGTERM to its end; undefined when it had to be killed. */
  readonly stopMs: number | undefined;
}

/**
 * Starts the program without a request, lets it settle, and asks it to stop. This is the one check
 * beside the host: the host never shows how a process that waits takes SIGTERM.
 */
export async function letWait(spec: ProcessSpec, settleMs: number): Promise<Waited> {
  const { entrypoint, cwd, env, killGraceMs } = spec;
  const child = spawn(entrypoint, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'ignore'] });
  const ended = new Promise<'ended'>((resolve) => {
    child.once('error', () => resolve('ended')).once('close', () => resolve('ended'));
  });
  const printed = new Promise<string>((resolve) => {
    child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString().slice(0, 80)));
  });
  const early = await Promise.race([
    ended.then(() => 'it ended'),
    printed.then((text) => `it printed ${JSON.stringify(text)}`),
    after(settleMs),
  ]);
  const stopAt = monotonicMs();
  const group = child.pid === undefined ? undefined : -child.pid;
  if (group !== undefined) sendSignal(group, 'SIGTERM');
  const isOver = await Promise.race([ended, after(killGraceMs)]);
  if (group !== undefined) sendSignal(group, 'SIGKILL');
  await ended;
  return {
    spoiled: early,
    stopMs: isOver === undefined ? undefined : monotonicMs() - stopAt,
  };
}

function after(ms: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(undefined), ms).unref();
  });
}
