import { spawn } from 'node:child_process';
import { monotonicMs } from '../../src/base/clock.ts';
import type { ProcessSpec } from '../../src/plugin/process.ts';
import { sendSignal } from '../../src/plugin/spawner/marks.ts';

export interface Waited {
  /** Output or end of the process before its request. */
  readonly spoiled: string | undefined;
  /** Time from SIGTERM to its end; undefined if it had to be killed. */
  readonly stopMs: number | undefined;
}

/**
 * Starts the program without a request, waits, and sends SIGTERM. This check doesn't use the host,
 * because the host never shows how a waiting process handles SIGTERM.
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
