import type { JsonObject } from '../base/json.ts';
import { formatByteSize, formatDuration } from '../base/quantity.ts';
import { limits } from '../base/limits.ts';
import type { Environment } from '../config/interpolate.ts';
import type { LimitReason, ProcessEnd, ProcessLimits, ProcessSpec } from './process.ts';
import { parseResponse, toStorable, type PluginEvent, type PluginLog } from './response.ts';

interface Failure {
  /** One line for `last_error`. */
  readonly message: string;
  /** Whether another attempt may help. */
  readonly retry: boolean;
  /** The plugin said by its exit code that its configuration is wrong. */
  readonly exit78: boolean;
  /** What came on stdout, fit for `job_log.result`. */
  readonly raw: string;
}

/** Every way in which an attempt can end. */
export type Reply =
  | {
      readonly kind: 'ok';
      readonly result: string;
      readonly events: readonly PluginEvent[];
      readonly stateUpdates: JsonObject | undefined;
      readonly logs: readonly PluginLog[];
      readonly raw: string;
    }
  /** The plugin answered that it failed. What it emitted all the same stays in `raw`. */
  | (Failure & {
      readonly kind: 'error';
      readonly logs: readonly PluginLog[];
      /** No sooner than after this, where it says so. */
      readonly retryAfterMs?: number | undefined;
    })
  /** It ran past its time; an answer given while it was being stopped does not count. */
  | (Failure & { readonly kind: 'timeout' })
  | (Failure & { readonly kind: 'signal'; readonly signal: string })
  | (Failure & { readonly kind: 'exit'; readonly code: number })
  /** It ended well but did not answer as it should. */
  | (Failure & { readonly kind: 'protocol' })
  /** It used more than it may. */
  | (Failure & { readonly kind: LimitReason })
  /** It never ran. `hostFull`: for lack of room on this machine, which is no fault of the job. */
  | (Failure & { readonly kind: 'unstarted'; readonly code: string; readonly hostFull: boolean })
  /** We stopped it: the claim was lost, somebody cancelled the job, or the engine shuts down. */
  | (Failure & { readonly kind: 'fenced' | 'cancelled' | 'shutdown' });

/** Decides what the end of a process means for its attempt, which ran under these limits. Never throws. */
export function decodeResponse(end: ProcessEnd, ran: Ran = { timeoutMs: end.runMs }): Reply {
  const { exit, stopped } = end;
  const raw = toStorable(end.stdout.toString());
  const exit78 = exit.kind === 'exited' && exit.code === EXIT_CONFIG;
  const failure = (message: string, retry = true): Failure => ({
    message: oneLine(message),
    retry: retry && !exit78,
    exit78,
    raw,
  });

  if (stopped === 'fenced') return { kind: 'fenced', ...failure('stopped: its claim was lost') };
  if (stopped === 'cancelled') return { kind: 'cancelled', ...failure('cancelled') };
  if (stopped === 'timeout') {
    const message = `timed out after ${formatDuration(ran.timeoutMs)}`;
    return { kind: 'timeout', ...failure(message), retry: true };
  }
  if (stopped !== undefined && isLimit(stopped)) {
    return { kind: stopped, ...failure(exceeded[stopped](ran.limits ?? {})), retry: true };
  }
  if (exit.kind === 'unstarted') {
    const { code, hostFull } = exit;
    return { kind: 'unstarted', code, hostFull, ...failure(whyUnstarted(code, hostFull)) };
  }
  if (stopped === 'output' || end.stdoutOverflowed) {
    const message = `wrote more than ${limits.stdoutBytesMax} bytes to stdout`;
    return { kind: 'protocol', ...failure(message) };
  }
  const response = parseResponse(end.stdout);
  // Work that was finished while the engine waited for it at shutdown is finished.
  if (stopped === 'shutdown' && response.status !== 'ok') {
    return { kind: 'shutdown', ...failure('stopped: the engine shuts down') };
  }
  if (response.status === 'ok' && (stopped === 'shutdown' || hasExitedCleanly(exit))) {
    const { result, events, stateUpdates, logs } = response;
    return { kind: 'ok', result, events, stateUpdates, logs, raw };
  }
  if (response.status === 'error') {
    const { error, retry, retryAfterMs, logs } = response;
    return { kind: 'error', logs, retryAfterMs, ...failure(error, retry), message: cut(error) };
  }
  const fault = response.status === 'ok' ? 'its response said ok' : response.fault;
  const said = lastLine(end.stderr);
  if (exit.kind === 'signalled') {
    const { signal } = exit;
    return { kind: 'signal', signal, ...failure(`was killed by ${signal}${said}`) };
  }
  if (exit.code !== 0) {
    const reason = said === '' ? `; ${fault}` : said;
    return { kind: 'exit', code: exit.code, ...failure(`exited with code ${exit.code}${reason}`) };
  }
  return { kind: 'protocol', ...failure(`${fault}${said}`) };
}

type Ran = Pick<ProcessSpec, 'timeoutMs' | 'limits'>;

function isLimit(stopped: string): stopped is LimitReason {
  return Object.hasOwn(exceeded, stopped);
}

/** The kernel ends processes for lack of memory without any limit of ours, so none may be set. */
const exceeded: Readonly<Record<LimitReason, (limits: ProcessLimits) => string>> = {
  memory: ({ memoryBytes }) =>
    memoryBytes === undefined
      ? 'was killed by the kernel because the machine ran out of memory'
      : `used more than ${formatByteSize(memoryBytes)} of memory`,
  processes: ({ processes = 0 }) => `had more than ${processes} processes at the same time`,
  cpu: ({ cpuMs = 0 }) => `used more than ${formatDuration(cpuMs)} of CPU time`,
  file_size: ({ fileBytes = 0 }) => `wrote a file of more than ${formatByteSize(fileBytes)}`,
};

const allowedVariables = new Set(['PATH', 'HOME', 'TZ', 'LANG', 'LANGUAGE', 'TMPDIR']);

/**
 * The whole environment of a plugin process: where programs and files are, language and time zone,
 * and what the operator passes on by name. The rest of the engine's own stays with the engine.
 */
export function pluginEnvironment(
  processEnv: Environment,
  passthrough: readonly string[],
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(processEnv)) {
    if (isPassedVariable(name, passthrough) && value !== undefined) env[name] = value;
  }
  return env;
}

/** Whether plugin processes get a variable of the service's environment. */
export function isPassedVariable(name: string, passthrough: readonly string[]): boolean {
  return allowedVariables.has(name) || /^LC_[A-Z]+$/.test(name) || passthrough.includes(name);
}

/** EX_CONFIG of sysexits.h. */
const EXIT_CONFIG = 78;

/** A program that says ok and then ends with an error has contradicted itself: its work is unsure. */
function hasExitedCleanly(exit: ProcessEnd['exit']): boolean {
  return exit.kind === 'exited' && exit.code === 0;
}

const startErrors: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  ENOENT: 'the program, or the interpreter in its first line, does not exist',
  ENOEXEC: 'it is not a program for this machine; does its first line start with #!?',
};

function whyUnstarted(code: string, hostFull: boolean): string {
  const reason = startErrors[code] ?? 'the system refused';
  const words = hostFull ? 'this machine has no room for another process' : reason;
  return `could not be started: ${words} (${code})`;
}

/** What most programs end their complaint with, to be read without opening the log. */
function lastLine(stderr: Buffer): string {
  const line = stderr.toString().trimEnd().split('\n').at(-1)?.trim() ?? '';
  return line === '' ? '' : `: ${line.slice(0, STDERR_SHOWN)}`;
}

const STDERR_SHOWN = 300;

function oneLine(message: string): string {
  return cut(message.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' '));
}

function cut(message: string): string {
  const short = message.length > limits.errorCharsMax;
  return toStorable(short ? `${message.slice(0, limits.errorCharsMax)}…` : message);
}
