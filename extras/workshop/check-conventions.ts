/** Checks what the runtime expects of every plugin. */
import { limits } from '../../src/base/limits.ts';
import { formatDuration } from '../../src/base/quantity.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { Manifest } from '../../src/plugin/manifest.ts';
import type { Asked, Bench } from './test-bench.ts';
import { explain } from './finding.ts';
import type { Finding } from './finding.ts';
import { letWait } from './waiting.ts';

export async function tryManners(bench: Bench): Promise<Finding[]> {
  const probe = probeOf(bench.manifest);
  return [
    await askUnknown(bench),
    await askWithMore(bench, probe),
    await askMisconfigured(bench, probe),
    ...(await askWaiting(bench, probe)),
  ];
}

/** Finds a command that can be run at any time. */
export function probeOf({ commands }: Manifest): string | undefined {
  const reads = Object.values(commands).filter(({ type }) => type === 'read');
  return (reads.find(({ name }) => name === 'health') ?? reads[0])?.name;
}

const UNKNOWN = 'no-such-command';

async function askUnknown(bench: Bench): Promise<Finding> {
  const { reply, end } = await bench.ask(UNKNOWN);
  const check = 'unknown command';
  if (reply.kind === 'ok') {
    return {
      check,
      verdict: 'failed',
      seen: `answers ok to ${UNKNOWN}: ${reply.result}`,
      means: 'A new command in the manifest would silently do something else.',
      mend: 'Look at `command`, and answer an error with "retry": false to those you do not know.',
    };
  }
  if (reply.kind !== 'error') return { check, verdict: 'failed', ...explain(reply, end) };
  if (!reply.retry) return { check, verdict: 'passed', seen: `is refused: ${reply.message}` };
  return {
    check,
    verdict: 'warning',
    seen: `is refused, but may be tried again: ${reply.message}`,
    means: 'The job is tried again and again although no attempt can help.',
    mend: 'Answer with "retry": false.',
  };
}

async function askWithMore(bench: Bench, probe: string | undefined): Promise<Finding> {
  const check = 'more members';
  if (probe === undefined) return skipped(check, 'it has only write commands');
  const before = await bench.ask(probe);
  if (!isAnswered(before)) return skipped(check, `${probe} does not answer`);
  const { reply, end } = await bench.ask(probe, { later: { x_later: { a: [1] } } });
  if (reply.kind === before.reply.kind) {
    return { check, verdict: 'passed', seen: 'are ignored when a request has them' };
  }
  const seen = reply.kind === 'ok' ? reply.result : reply.message;
  const said = reply.kind === 'ok' || reply.kind === 'error' ? { seen } : explain(reply, end);
  return {
    check,
    verdict: 'failed',
    ...said,
    means: 'A later runtime may say more in its requests; then every job of it fails.',
    mend: 'Read the members that you need, and ignore the others.',
  };
}

/** Tests a missing required key, or else a value of the wrong type. */
async function askMisconfigured(bench: Bench, probe: string | undefined): Promise<Finding> {
  const check = 'exit code 78';
  const { required, optional } = bench.manifest.configKeys;
  const key = required[0] ?? optional[0];
  if (probe === undefined) return skipped(check, 'it has only write commands');
  if (key === undefined) return skipped(check, 'its manifest names no configuration keys');
  const { [key]: _, ...without } = bench.exampleOf(probe).config;
  const isMissing = required.length > 0;
  const config: JsonObject = isMissing ? without : { ...without, [key]: { wrong: [true] } };
  const { reply } = await bench.ask(probe, { with: { config } });
  const what = isMissing ? `without config.${key}` : `with a map as config.${key}`;
  if (reply.kind !== 'ok' && reply.exit78) {
    return { check, verdict: 'passed', seen: `${what}: ${reply.message}` };
  }
  if (reply.kind === 'unstarted') return skipped(check, `${probe} does not answer`);
  if (reply.kind === 'ok') {
    return {
      check,
      verdict: 'warning',
      seen: `${what}, ${probe} answers ok`,
      means: 'A mistake in the configuration is noticed late, or never.',
      mend: `Check config.${key} in ${probe}, and exit with 78 when it is wrong.`,
    };
  }
  return {
    check,
    verdict: 'warning',
    seen: `${what}: ${reply.message}; the exit code is not 78`,
    means: 'The job is tried again and again although only the operator can help.',
    mend: 'Answer the error and exit with 78 when the configuration is wrong.',
  };
}

async function askWaiting(bench: Bench, probe: string | undefined): Promise<Finding[]> {
  const { manifest, specOf, slowestMs } = bench;
  const spec = specOf(probe ?? 'health');
  const { spoiled, stopMs } = await letWait(spec, settleMs(slowestMs()));
  const findings: Finding[] = [];
  if (manifest.prewarm) findings.push(await askHeld(bench, probe, spoiled));
  findings.push(stopMs === undefined ? unstoppable : stoppedIn(stopMs));
  return findings;
}

async function askHeld(
  { ask }: Bench,
  probe: string | undefined,
  spoiled: string | undefined,
): Promise<Finding> {
  const check = 'prewarm';
  if (spoiled !== undefined) {
    return {
      check,
      verdict: 'failed',
      seen: `${spoiled} before its request`,
      means: 'What was started ahead is thrown away each time, and costs more than it saves.',
      mend: 'Do nothing before the request is read, or remove `prewarm: true`.',
    };
  }
  if (probe === undefined) return skipped(check, 'it has only write commands');
  if (!isAnswered(await ask(probe, { isHeld: true }))) {
    return skipped(check, `${probe} does not answer`);
  }
  return { check, verdict: 'passed', seen: 'waits for its request, and answers it' };
}

const SETTLE = { leastMs: 500, mostMs: 5000 };

/** Long enough for an interpreter to start, even on a busy machine. */
function settleMs(slowestMs: number): number {
  return Math.min(SETTLE.leastMs + 2 * slowestMs, SETTLE.mostMs);
}

const unstoppable: Finding = {
  check: 'SIGTERM',
  verdict: 'failed',
  seen: `still runs ${formatDuration(limits.killGraceMs)} after SIGTERM`,
  means: 'It is killed with SIGKILL, and what it has begun is not brought to an end.',
  mend: 'Do not ignore SIGTERM; end soon after it, children included.',
};

function stoppedIn(ms: number): Finding {
  return { check: 'SIGTERM', verdict: 'passed', seen: `ends in ${formatDuration(Math.ceil(ms))}` };
}

function isAnswered({ reply }: Asked): boolean {
  return reply.kind === 'ok' || reply.kind === 'error';
}

function skipped(check: string, seen: string): Finding {
  return { check, verdict: 'skipped', seen };
}
