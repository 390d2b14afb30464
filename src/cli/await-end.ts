import { formatDuration, parseDuration } from '../base/quantity.ts';
import { toVisibleText } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import { callOperation, type OperationInput, findTarget } from './call-operation.ts';
import type { CommandDefinition } from './commands.ts';
import { repeatTargetInText } from './repeat-target.ts';
import type { CommonFlags, CliSession } from './host.ts';
import { isMoment } from './table.ts';
import { rowOf, rowsOf } from './view-parts.ts';

/**
 * The time that one request waits; after it, the progress is printed. A single long request couldn't report
 * a failed attempt, and Ctrl-C would come before the id is known.
 */
const STEP_MS = 2000;

/** The exit code of a program that Ctrl-C ended. */
export const EXIT_INTERRUPTED = 130;

/** Operations that start something, and the operation that waits for its end. */
interface AwaitRules {
  /** The operation that waits for what was started. */
  readonly wait: string;
  readonly noun: 'job' | 'run';
  readonly id: 'job_id' | 'run_id';
  /** The user who started a run may be its approver, so waiting ends at an approval. */
  readonly endsAtApproval: boolean;
}

const awaitedBy: Readonly<Record<string, AwaitRules>> = {
  'plugin.run': { wait: 'job.wait', noun: 'job', id: 'job_id', endsAtApproval: false },
  'job.wait': { wait: 'job.wait', noun: 'job', id: 'job_id', endsAtApproval: false },
  'pipeline.run': { wait: 'run.wait', noun: 'run', id: 'run_id', endsAtApproval: true },
  'run.wait': { wait: 'run.wait', noun: 'run', id: 'run_id', endsAtApproval: false },
};

/**
 * Starts something on a server and waits for its end in short requests, so that failed attempts are
 * reported while others follow, and Ctrl-C can name what continues. Undefined when it was interrupted.
 */
export async function callAndWait(
  session: CliSession,
  options: CommonFlags,
  { name }: CommandDefinition,
  input: OperationInput,
): Promise<JsonOutput | undefined> {
  const awaited = awaitedBy[name];
  const waitMs = readWait(input['wait']);
  const isLong = waitMs !== undefined && waitMs > STEP_MS && input['async'] !== true;
  if (awaited === undefined || !isLong || (await findTarget(session, options)) === undefined) {
    return await callOperation(session, options, name, input);
  }
  const { io } = session;
  const until = io.now() + waitMs;
  const interruption = io.interruption();
  const interrupted = new Promise<undefined>((resolve) => {
    interruption.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  const step = `${STEP_MS}ms`;
  // Wait for the start even after Ctrl-C: its id isn't known before.
  let output: JsonOutput | undefined = await callOperation(session, options, name, {
    ...input,
    wait: step,
  });
  const { [awaited.id]: id, duplicate } = output;
  const reporter = new ProgressReporter(session, awaited);
  while (isUnfinished(output, awaited) && !interruption.aborted && io.now() < until) {
    await reporter.report(output, (operation, request) =>
      callOperation(session, options, operation, request),
    );
    output = await Promise.race([
      callOperation(session, options, awaited.wait, { id, wait: step }),
      interrupted,
    ]);
  }
  if (interruption.aborted && (output === undefined || isUnfinished(output, awaited))) {
    reporter.reportInterrupted(String(id));
    return undefined;
  }
  return duplicate === undefined ? output : { ...output, duplicate };
}

function isUnfinished(
  output: JsonOutput | undefined,
  { endsAtApproval }: AwaitRules,
): output is JsonOutput {
  if (output?.['timeout_exceeded'] !== true) return false;
  return !endsAtApproval || rowOf(output['waiting_for'])['kind'] !== 'approval';
}

function readWait(wait: unknown): number | undefined {
  if (wait === true) return Infinity;
  if (typeof wait === 'number') return wait;
  if (typeof wait !== 'string') return undefined;
  const parsed = parseDuration(wait);
  return parsed.ok ? parsed.ms : undefined;
}

type Call = (name: string, input: OperationInput) => Promise<JsonOutput>;

/** Writes changes of the progress to standard error. */
class ProgressReporter {
  readonly #session: CliSession;
  readonly #awaited: AwaitRules;
  #lastKey = '';

  constructor(session: CliSession, awaited: AwaitRules) {
    this.#session = session;
    this.#awaited = awaited;
  }

  async report(output: JsonOutput, call: Call): Promise<void> {
    const { io } = this.#session;
    const lines =
      this.#awaited.noun === 'job'
        ? describeJob(output, io.now())
        : describeRun(await call('run.show', { id: output['run_id'] }), io.now());
    const key = lines.map((line) => line.key).join('\n');
    if (key === this.#lastKey) return;
    this.#lastKey = key;
    for (const { text } of lines) this.#write(text);
  }

  reportInterrupted(id: string): void {
    const { noun } = this.#awaited;
    this.#write(
      `${noun} ${id} continues. Stop it: \`ductile ${noun} cancel ${id}\`. ` +
        `Wait for it: \`ductile ${noun} wait ${id}\``,
    );
  }

  #write(text: string): void {
    const { io, argv } = this.#session;
    // A spinner may be on this line.
    const clear = io.isErrTTY ? '\r\u001b[K' : '';
    io.stderr.write(`${clear}${toVisibleText(repeatTargetInText(text, argv))}\n`);
  }
}

/** Line of progress. It is printed if its key is new; the text also changes with time. */
interface ProgressLine {
  readonly key: string;
  readonly text: string;
}

function describeJob(output: JsonOutput, nowMs: number): ProgressLine[] {
  const { status, retry_count: failed, max_attempts: maxAttempts, next_retry_at: next } = output;
  if (status !== 'queued' || !isMoment(next) || Number(failed) === 0) return [];
  const error = firstLineOf(output['last_error']);
  const text =
    `attempt ${String(failed)} of ${String(maxAttempts)} failed${error}; ` +
    `next attempt ${formatIn(next, nowMs)}`;
  return [{ key: `${String(failed)} ${next}`, text }];
}

function describeRun(output: JsonOutput, nowMs: number): ProgressLine[] {
  return rowsOf(output['waiting']).flatMap(({ step, why, until }) => {
    const isRetry = String(why).includes('will be retried');
    if (!isRetry && isMoment(until)) return [];
    if (!isRetry && !String(why).startsWith('it waits for approval')) return [];
    const when = isMoment(until) ? `; next attempt ${formatIn(until, nowMs)}` : '';
    const text = `step ${String(step)}: ${String(why).split('\n')[0] ?? ''}${when}`;
    return [{ key: `${String(step)} ${String(why)} ${String(until)}`, text }];
  });
}

function firstLineOf(error: unknown): string {
  if (typeof error !== 'string' || error === '') return '';
  const [line = ''] = error.trim().split('\n');
  return `: ${line}`;
}

function formatIn(at: string, nowMs: number): string {
  const seconds = Math.max(0, Math.round((Date.parse(at) - nowMs) / 1000));
  return seconds === 0 ? 'now' : `in ${formatDuration(seconds * 1000)}`;
}
