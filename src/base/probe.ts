/**
 * Named fault points for crash tests, which arm each of them in turn. DUCTILE_PROBE arms one of them
 * as `name:action[:nth]`. The action is `kill` (SIGKILL), `exit`, `throw` or `stop` (SIGSTOP), and
 * happens when the process reaches the point for the nth time (default: 1).
 */
export const probes = [
  'enqueue.before-commit',
  'enqueue.after-commit',
  'fire.before-commit',
  'fire.after-commit',
  'claim.before-commit',
  'claim.after-commit',
  'spawn.before',
  'spawn.after',
  'run.after-exit',
  'settle.before-commit',
  'settle.after-commit',
  'advance.before-commit',
  'advance.after-commit',
  'heartbeat.after-commit',
  'reap.before-commit',
  'reap.after-commit',
  'release.before-commit',
  'release.after-commit',
  'prune.after-commit',
  'install.before-commit',
  'install.after-commit',
  'reload.before-swap',
  'rotate.after-key',
  'rotate.after-step',
  'tenant.before-ledger',
  'tenant.after-ledger',
  'tenant.before-removal',
  'tenant.after-removal',
] as const;

export type Probe = (typeof probes)[number];
type Action = 'kill' | 'exit' | 'throw' | 'stop';

interface ArmedProbe {
  readonly name: string;
  readonly action: Action;
  left: number;
}

const armed = parseArmed(process.env['DUCTILE_PROBE']);

export function probe(name: Probe): void {
  if (armed === undefined || armed.name !== name) return;
  armed.left -= 1;
  if (armed.left === 0) fire(armed);
}

/** Reaches the fault points of a commit on one side of it. Some commits have none. */
export function probeCommit(side: 'before' | 'after', commits: readonly string[]): void {
  for (const commit of commits) {
    const name = `${commit}.${side}-commit`;
    if (isProbe(name)) probe(name);
  }
}

const names: ReadonlySet<string> = new Set(probes);

function isProbe(name: string): name is Probe {
  return names.has(name);
}

function fire({ name, action }: ArmedProbe): void {
  if (action === 'kill') process.kill(process.pid, 'SIGKILL');
  if (action === 'stop') process.kill(process.pid, 'SIGSTOP');
  if (action === 'exit') process.exit(99);
  if (action === 'throw') throw new Error(`probe ${name}`);
}

function parseArmed(text: string | undefined): ArmedProbe | undefined {
  if (text === undefined || text === '') return undefined;
  const [name = '', action = 'kill', nth = '1'] = text.split(':');
  return { name, action: action as Action, left: Number(nth) };
}
