import type { JsonObject } from '../base/json.ts';
import { formatByteSize, formatDuration } from '../base/quantity.ts';
import { limits } from '../base/limits.ts';
import type { Environment } from '../config/interpolate.ts';
import type { LimitReason, ProcessEnd, ProcessLimits, ProcessSpec } from './process.ts';
import { parseResponse, toStorable, type PluginEvent, type PluginLog } from './response.ts';

interface Failure {
  /** One line for `last_error`. */
  readonly message: string;
  /** True if a retry may help. */
  readonly retry: boolean;
  /** True if the exit code says that the configuration is wrong. */
  readonly exit78: boolean;
  /** The stdout, ready for `job_log.result`. */
  readonly raw: string;
}

/** The result of an attempt. */
export type Reply =
  | {
      readonly kind: 'ok';
      readonly result: string;
      readonly events: readonly PluginEvent[];
      readonly stateUpdates: JsonObject | undefined;
      readonly logs: readonly PluginLog[];
      readonly raw: string;
    }
  /** The plugin reported a failure. Its events stay in `raw`. */
  | (Failure & {
      readonly kind: 'error';
      readonly logs: readonly PluginLog[];
      /** The shortest delay before a retry, if the plugin sets one. */
      readonly retryAfterMs?: number | undefined;
    })
  /** It timed out; a response during the grace period doesn't count. */
  | (Failure & { readonly kind: 'timeout' })
  | (Failure & { readonly kind: 'signal'; readonly signal: string })
  | (Failure & { readonly kind: 'exit'; readonly code: number })
  /** It exited with 0 but its response is invalid. */
  | (Failure & { readonly kind: 'protocol' })
  /** It exceeded a limit. */
  | (Failure & { readonly kind: LimitReason })
  /** It never started. `hostFull`: the machine lacked resources, so the job isn't at fault. */
  | (Failure & { readonly kind: 'unstarted'; readonly code: string; readonly hostFull: boolean })
  /**
   * The service stopped it: the claim was lost, the job was cancelled, or the service shuts down.
   */
  | (Failure & { readonly kind: 'fenced' | 'cancelled' | 'shutdown' });

/** Decides the result of an attempt from the end of its process and its limits. Never throws. */
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
  // Work that finished during the shutdown grace period counts.
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

/** The kernel can kill processes for lack of memory even if no limit is set. */
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
 * Builds the complete environment of a plugin process: paths, language and time zone, and the
 * variables that the operator passes on by name.
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

export function isPassedVariable(name: string, passthrough: readonly string[]): boolean {
  return allowedVariables.has(name) || /^LC_[A-Z]+$/.test(name) || passthrough.includes(name);
}

/** EX_CONFIG of sysexits.h. */
const EXIT_CONFIG = 78;

/** A program that reports ok and exits with an error contradicts itself, so it failed. */
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

/** Returns the last line, which is usually the error message. */
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
