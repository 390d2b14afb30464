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
        means: 'It is stopped (SIGTERM, then SIGKILL), and the attempt counts as timed out.',
        mend: 'Answer in time; give up before `deadline_at`; close what keeps the process alive.',
      };
    case 'unstarted':
      return {
        seen,
        means: 'No job of it can run; each uses up its attempts and becomes dead.',
        mend: 'Look at its first line (#!) and that the interpreter is on the PATH.',
      };
    case 'signal':
      return {
        seen,
        means: 'It counts as a crash: the attempt is repeated, and in the end the job is dead.',
        mend: 'Answer before anything ends the process; see what it wrote to stderr.',
      };
    case 'exit':
      return {
        seen,
        means:
          'The attempt fails, and is repeated with growing delays until the attempts are used up.',
        mend: 'Catch what goes wrong and answer {"status":"error","error":"…"}; the code may be 0.',
      };
    case 'protocol':
      return explainOutput(seen, end);
    default:
      return { seen, means: 'The attempt is given up.', mend: 'Run the test again.' };
  }
}

/** Recognizes the most common cause: other output before the response. */
function explainOutput(seen: string, end: ProcessEnd): Explanation {
  const means = 'The attempt fails although the work may be done, so that it is done again.';
  if (end.stdoutOverflowed || end.stopped === 'output') {
    const mend = `Answer with less than ${limits.stdoutBytesMax} bytes; put large things into a file.`;
    return { seen, means, mend };
  }
  const lines = end.stdout.toString().trimEnd().split('\n');
  if (lines.length > 1 && isResponse(lines.at(-1) ?? '')) {
    const first = JSON.stringify(lines[0]?.slice(0, 80));
    return {
      seen: `stdout has ${first} before the answer`,
      means,
      mend: 'Print to stderr, or use `logs` of the answer: stdout is for one JSON object alone.',
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
