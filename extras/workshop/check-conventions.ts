import { spawn } from 'node:child_process';
import { monotonicMs } from '../../src/base/clock.ts';
import { limits } from '../../src/base/limits.ts';
import { formatDuration } from '../../src/base/quantity.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { Manifest } from '../../src/plugin/manifest.ts';
import type { ProcessSpec } from '../../src/plugin/process.ts';
import { sendSignal } from '../../src/plugin/spawner/marks.ts';
import type { TestReply, TestBench } from './test-bench.ts';
import { explain } from './finding.ts';
import type { Finding } from './finding.ts';

/** Checks the behavior that Ductile expects from every plugin. */
export async function checkConventions(bench: TestBench): Promise<Finding[]> {
  const probe = findProbe(bench.manifest);
  return [
    await checkUnknownCommand(bench),
    await checkExtraMembers(bench, probe),
    await checkMisconfigured(bench, probe),
    ...(await checkWaiting(bench, probe)),
  ];
}

/** Finds a command without side effects, preferably `health`. */
export function findProbe({ commands }: Manifest): string | undefined {
  const reads = Object.values(commands).filter(({ type }) => type === 'read');
  return (reads.find(({ name }) => name === 'health') ?? reads[0])?.name;
}

const UNKNOWN = 'no-such-command';

async function checkUnknownCommand(bench: TestBench): Promise<Finding> {
  const { reply, end } = await bench.send(UNKNOWN);
  const check = 'unknown command';
  if (reply.kind === 'ok') {
    return {
      check,
      verdict: 'failed',
      seen: `returns ok for ${UNKNOWN}: ${reply.result}`,
      means: 'A new command in the manifest would silently do something else.',
      mend: 'Check `command`, and return an error with "retry": false for unknown commands.',
    };
  }
  if (reply.kind !== 'error') return { check, verdict: 'failed', ...explain(reply, end) };
  if (!reply.retry) return { check, verdict: 'passed', seen: `is refused: ${reply.message}` };
  return {
    check,
    verdict: 'warning',
    seen: `is refused, but Ductile would retry it: ${reply.message}`,
    means: 'Ductile retries the job, although no retry can succeed.',
    mend: 'Return the error with "retry": false.',
  };
}

async function checkExtraMembers(bench: TestBench, probe: string | undefined): Promise<Finding> {
  const check = 'extra members';
  if (probe === undefined) return skipped(check, 'it has only write commands');
  const before = await bench.send(probe);
  if (!hasReplied(before)) return skipped(check, `${probe} returns no response`);
  const { reply, end } = await bench.send(probe, { extraMembers: { x_later: { a: [1] } } });
  if (reply.kind === before.reply.kind) {
    return { check, verdict: 'passed', seen: 'are ignored' };
  }
  const seen = reply.kind === 'ok' ? reply.result : reply.message;
  const explanation =
    reply.kind === 'ok' || reply.kind === 'error' ? { seen } : explain(reply, end);
  return {
    check,
    verdict: 'failed',
    ...explanation,
    means: 'A later version of Ductile may send more members. Then every job of the plugin fails.',
    mend: 'Read the members that you need, and ignore the others.',
  };
}

/** Tests a missing required key, or else a value of the wrong type. */
async function checkMisconfigured(bench: TestBench, probe: string | undefined): Promise<Finding> {
  const check = 'exit code 78';
  const { required, optional } = bench.manifest.configKeys;
  const key = required[0] ?? optional[0];
  if (probe === undefined) return skipped(check, 'it has only write commands');
  if (key === undefined) return skipped(check, 'its manifest names no configuration keys');
  const { [key]: _, ...without } = bench.exampleOf(probe).config;
  const isMissing = required.length > 0;
  const config: JsonObject = isMissing ? without : { ...without, [key]: { wrong: [true] } };
  const { reply } = await bench.send(probe, { with: { config } });
  const what = isMissing ? `without config.${key}` : `with a map as config.${key}`;
  if (reply.kind !== 'ok' && reply.exit78) {
    return { check, verdict: 'passed', seen: `${what}: ${reply.message}` };
  }
  if (reply.kind === 'unstarted') return skipped(check, `${probe} returns no response`);
  if (reply.kind === 'ok') {
    return {
      check,
      verdict: 'warning',
      seen: `${what}, ${probe} returns ok`,
      means: 'A mistake in the configuration is noticed late, or never.',
      mend: `Check config.${key} in ${probe}, and exit with 78 if it is wrong.`,
    };
  }
  return {
    check,
    verdict: 'warning',
    seen: `${what}: ${reply.message}; the exit code is not 78`,
    means: 'Ductile retries the job, although only the operator can fix it.',
    mend: 'Return the error, and exit with 78 if the configuration is wrong.',
  };
}

async function checkWaiting(bench: TestBench, probe: string | undefined): Promise<Finding[]> {
  const { manifest, specOf, slowestMs } = bench;
  const spec = specOf(probe ?? 'health');
  const { earlyEnd, stopMs } = await runWithoutRequest(spec, settleMs(slowestMs()));
  const findings: Finding[] = [];
  if (manifest.prewarm) findings.push(await checkPrewarm(bench, probe, earlyEnd));
  findings.push(stopMs === undefined ? unstoppable : stoppedIn(stopMs));
  return findings;
}

async function checkPrewarm(
  { send }: TestBench,
  probe: string | undefined,
  earlyEnd: string | undefined,
): Promise<Finding> {
  const check = 'prewarm';
  if (earlyEnd !== undefined) {
    return {
      check,
      verdict: 'failed',
      seen: `${earlyEnd} before its request`,
      means: 'Each prewarmed process is discarded, so prewarming costs more than it saves.',
      mend: 'Do nothing before the request is read, or remove `prewarm: true`.',
    };
  }
  if (probe === undefined) return skipped(check, 'it has only write commands');
  if (!hasReplied(await send(probe, { isPrewarmed: true }))) {
    return skipped(check, `${probe} returns no response`);
  }
  return { check, verdict: 'passed', seen: 'waits for its request, and responds to it' };
}

interface WaitResult {
  /** Description of output or an exit before the request. */
  readonly earlyEnd: string | undefined;
  /** Time from SIGTERM to its end; undefined if it had to be killed. */
  readonly stopMs: number | undefined;
}

/**
 * Starts the plugin without a request, waits, and sends SIGTERM. This bypasses the spawner, which
 * doesn't report how a waiting process handles SIGTERM.
 */
async function runWithoutRequest(spec: ProcessSpec, waitMs: number): Promise<WaitResult> {
  const { entrypoint, cwd, env, killGraceMs } = spec;
  const child = spawn(entrypoint, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'ignore'] });
  const ended = new Promise<'ended'>((resolve) => {
    child.once('error', () => resolve('ended')).once('close', () => resolve('ended'));
  });
  const printed = new Promise<string>((resolve) => {
    child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString().slice(0, 80)));
  });
  const earlyEnd = await Promise.race([
    ended.then(() => 'it ended'),
    printed.then((text) => `it printed ${JSON.stringify(text)}`),
    after(waitMs),
  ]);
  const stopAt = monotonicMs();
  const group = child.pid === undefined ? undefined : -child.pid;
  if (group !== undefined) sendSignal(group, 'SIGTERM');
  const isOver = await Promise.race([ended, after(killGraceMs)]);
  if (group !== undefined) sendSignal(group, 'SIGKILL');
  await ended;
  return {
    earlyEnd,
    stopMs: isOver === undefined ? undefined : monotonicMs() - stopAt,
  };
}

function after(ms: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(undefined), ms).unref();
  });
}

const SETTLE = { leastMs: 500, mostMs: 5000 };

/** Returns a time in which an interpreter starts, even on a busy machine. */
function settleMs(slowestMs: number): number {
  return Math.min(SETTLE.leastMs + 2 * slowestMs, SETTLE.mostMs);
}

const unstoppable: Finding = {
  check: 'SIGTERM',
  verdict: 'failed',
  seen: `still runs ${formatDuration(limits.killGraceMs)} after SIGTERM`,
  means: "Ductile kills it with SIGKILL, and it can't finish its work.",
  mend: 'Do not ignore SIGTERM. End soon after it, together with all child processes.',
};

function stoppedIn(ms: number): Finding {
  return { check: 'SIGTERM', verdict: 'passed', seen: `ends in ${formatDuration(Math.ceil(ms))}` };
}

function hasReplied({ reply }: TestReply): boolean {
  return reply.kind === 'ok' || reply.kind === 'error';
}

function skipped(check: string, seen: string): Finding {
  return { check, verdict: 'skipped', seen };
}
