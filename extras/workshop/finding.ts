import { limits } from '../../src/base/limits.ts';
import { isObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import type { Reply } from '../../src/plugin/protocol.ts';
import type { ProcessEnd } from '../../src/plugin/process.ts';

/**
 * Result of one check. `hint` is advice, `warning` works but causes trouble, `failed` breaks a
 * rule.
 */
export interface Finding {
  readonly check: string;
  readonly command?: string;
  readonly verdict: 'passed' | 'hint' | 'warning' | 'failed' | 'skipped';
  /** Observation. */
  readonly seen: string;
  /** Consequence in the service. */
  readonly means?: string;
  /** Fix. */
  readonly mend?: string;
}

/** Explanation of a missing response. */
export type Explanation = Required<Pick<Finding, 'seen' | 'means' | 'mend'>>;

export type MissingReply = Exclude<Reply, { kind: 'ok' | 'error' }>;

export function explain(reply: MissingReply, end: ProcessEnd): Explanation {
  const seen = reply.message;
  switch (reply.kind) {
    case 'timeout':
      return {
        seen,
        means: 'Ductile stops it (SIGTERM, then SIGKILL), and the attempt times out.',
        mend:
          'Respond before `deadline_at`, then exit. ' +
          'Close everything that keeps the process alive.',
      };
    case 'unstarted':
      return {
        seen,
        means: 'No job of the plugin can run. Each job uses up its attempts and becomes dead.',
        mend: 'Check its first line (#!), and that the interpreter is on the PATH.',
      };
    case 'signal':
      return {
        seen,
        means:
          'This counts as a crash. Ductile repeats the attempt, ' +
          'and the job becomes dead in the end.',
        mend: 'Respond before the process ends. Check its stderr for the cause.',
      };
    case 'exit':
      return {
        seen,
        means: 'The attempt fails. Ductile retries it with growing delays up to max_attempts.',
        mend: 'Catch errors and return {"status":"error","error":"…"}. The exit code may be 0.',
      };
    case 'protocol':
      return explainOutput(seen, end);
    default:
      return { seen, means: 'Ductile gives up the attempt.', mend: 'Run the test again.' };
  }
}

/** Recognizes the most common cause: other output before the response. */
function explainOutput(seen: string, end: ProcessEnd): Explanation {
  const means = 'The attempt fails although the work may be done, so Ductile repeats the work.';
  if (end.stdoutOverflowed || end.stopped === 'output') {
    const mend = `Return less than ${limits.stdoutBytesMax} bytes. Put large data into a file.`;
    return { seen, means, mend };
  }
  const lines = end.stdout.toString().trimEnd().split('\n');
  if (lines.length > 1 && isResponse(lines.at(-1) ?? '')) {
    const first = JSON.stringify(lines[0]?.slice(0, 80));
    return {
      seen: `stdout has ${first} before the response`,
      means,
      mend: 'Print to stderr, or use `logs` in the response. Write only one JSON object to stdout.',
    };
  }
  const mend =
    'Write exactly one JSON object with "status" and "result" (or "error") to stdout, then exit.';
  return { seen, means, mend };
}

function isResponse(line: string): boolean {
  try {
    const value: unknown = parseJson(line);
    return isObject(value) && Object.hasOwn(value, 'status');
  } catch {
    return false;
  }
}
