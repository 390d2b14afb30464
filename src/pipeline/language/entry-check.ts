import { formatDuration } from '../../base/duration.ts';
import { limits } from '../../base/limits.ts';
import type { ParsedStep, ParsedWait } from './parsed.ts';

type Report = (key: string, message: string, hint?: string) => void;
type Key = keyof ParsedStep;

/** What a step can be; each is told by a key of its own. */
const modes = ['uses', 'call', 'split', 'foreach', 'switch', 'approve', 'wait', 'steps'] as const;
export type Mode = (typeof modes)[number];

/** Which steps may have a key; one that is not here may stand anywhere. */
const places: Readonly<Partial<Record<Key, readonly Mode[]>>> = {
  as: ['foreach'],
  concurrency: ['foreach'],
  max_fanout: ['foreach'],
  cases: ['switch'],
  otherwise: ['switch'],
  with: ['uses'],
  baggage: ['uses'],
  dependency: ['uses'],
  retry: ['uses'],
  timeout: ['uses', 'approve', 'wait'],
  on_error: ['uses', 'approve', 'wait'],
};

/** What a step does. `cases` without `switch` is one too, whose cases are conditions. */
export function modeOf(step: Partial<Record<Key, unknown>>): Mode | undefined {
  if (step.switch === undefined && step.cases !== undefined) return 'switch';
  return modes.find((mode) => step[mode] !== undefined);
}

/** Looks at keys only, since their values may have faults of their own. */
export function checkStep(step: ParsedStep, report: Report): void {
  const mode = modeOf(step);
  if (mode === undefined) {
    report('uses', `or one of ${modes.slice(1).join(', ')} is required`);
    return;
  }
  const others = modes.filter((other) => other !== mode && step[other] !== undefined);
  for (const other of others) {
    if (mode === 'foreach' && other === 'steps') continue;
    report(other, `and ${mode} exclude each other`, 'Make two steps of it.');
  }
  for (const [key, allowed] of Object.entries(places)) {
    if (step[key as Key] === undefined || allowed.includes(mode)) continue;
    report(key, `is only for steps with ${allowed.join(', ')}, not for ${mode}`);
  }
  if (mode === 'foreach' && step.steps === undefined) report('steps', 'is required with foreach');
  if (mode === 'switch') checkSwitch(step, report);
  // An attempt is watched by a timer; approvals and waits are not.
  if (mode === 'uses' && typeof step.timeout === 'number' && step.timeout > limits.timerMsMax) {
    report('timeout', `must be at most ${formatDuration(limits.timerMsMax)} for uses`);
  }
}

function checkSwitch({ switch: value, cases }: ParsedStep, report: Report): void {
  if (cases === undefined) {
    report('cases', 'is required with switch');
  } else if (Array.isArray(cases) && value !== undefined) {
    const hint = 'Leave switch away, or write cases as a map from value to steps.';
    report('cases', 'is a list of conditions, which compare nothing with switch', hint);
  } else if (!Array.isArray(cases) && value === undefined) {
    report('switch', 'is required: it says what the cases are compared with');
  }
}

/** A wait for time cannot be late. */
export function checkDeadline(
  { wait, timeout, on_error: onError }: ParsedStep,
  report: Report,
): void {
  if (wait === undefined || wait.signal !== undefined) return;
  if (timeout !== undefined) report('timeout', 'is only for a wait for a signal');
  if (onError !== undefined) report('on_error', 'is only for a wait for a signal');
}

export function checkWait(wait: ParsedWait, report: Report): void {
  const given = (['delay', 'until', 'signal'] as const).filter((key) => wait[key] !== undefined);
  const [first, second] = given;
  if (first === undefined) report('delay', 'or one of until and signal is required');
  if (second !== undefined) report(second, `and ${first} exclude each other`, 'Keep one of them.');
  for (const key of ['from', 'if', 'since'] as const) {
    if (wait[key] !== undefined && wait.signal === undefined) {
      report(key, 'is only for a wait for a signal');
    }
  }
}
