/**
 * Named fault points. They do nothing unless DUCTILE_PROBE arms one, as `name:action[:nth]`, where
 * the action is `kill` (SIGKILL of this process), `exit`, `throw` or `stop` (SIGSTOP), at the nth
 * time the point is reached (first by default). Crash tests arm each of them in turn.
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

interface Armed {
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

function fire({ name, action }: Armed): void {
  if (action === 'kill') process.kill(process.pid, 'SIGKILL');
  if (action === 'stop') process.kill(process.pid, 'SIGSTOP');
  if (action === 'exit') process.exit(99);
  if (action === 'throw') throw new Error(`probe ${name}`);
}

function parseArmed(text: string | undefined): Armed | undefined {
  if (text === undefined || text === '') return undefined;
  const [name = '', action = 'kill', nth = '1'] = text.split(':');
  return { name, action: action as Action, left: Number(nth) };
}
