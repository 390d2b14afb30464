import type { Name } from '../api/types.ts';

/** Command of a finding that the dashboard can run as an operation. */
export interface Remedy {
  readonly name: Name;
  readonly input: Readonly<Record<string, unknown>>;
  /** The text of the button. */
  readonly word: string;
  /** The question above the plan. */
  readonly title: string;
  /** The toast. */
  readonly done: string;
  /** Field for a reason that the user may enter. */
  readonly reason?: 'reason' | undefined;
}

type OptionKind = 'text' | 'list' | 'number';

interface RemedyRules {
  readonly positionals: readonly string[];
  readonly options?: Readonly<Record<string, OptionKind>>;
  readonly word: string;
  readonly title: (input: Readonly<Record<string, unknown>>) => string;
  readonly done: string;
  readonly reason?: 'reason';
}

/** Operations whose plan shows everything that they do. Other commands can only be copied. */
export const remedies: Readonly<Partial<Record<Name, RemedyRules>>> = {
  'run.revive': {
    positionals: ['id'],
    word: 'Revive run',
    title: () => 'Revive this run?',
    done: 'Run revived',
  },
  'run.cancel': {
    positionals: ['id'],
    word: 'Cancel run',
    title: () => 'Cancel this run?',
    done: 'Run cancelled',
  },
  'run.approve': {
    positionals: ['id', 'step'],
    word: 'Approve',
    title: ({ step }) => `Approve ${String(step)}?`,
    done: 'Step approved',
  },
  'run.reject': {
    positionals: ['id', 'step'],
    word: 'Reject',
    title: ({ step }) => `Reject ${String(step)}?`,
    done: 'Step rejected',
  },
  'job.retry': {
    positionals: ['id'],
    word: 'Retry job',
    title: () => 'Retry this job as a new job?',
    done: 'Job retried',
  },
  'job.cancel': {
    positionals: ['id'],
    word: 'Cancel job',
    title: () => 'Cancel this job?',
    done: 'Job cancelled',
  },
  'jobs.retry': {
    positionals: [],
    options: {
      plugin: 'text',
      command: 'text',
      status: 'list',
      older_than: 'text',
      limit: 'number',
    },
    word: 'Retry jobs',
    title: () => 'Retry these jobs as new jobs?',
    done: 'Jobs retried',
  },
  'incident.acknowledge': {
    positionals: ['id'],
    options: { reason: 'text' },
    reason: 'reason',
    word: 'Acknowledge',
    title: () => 'Acknowledge this, so that it is no longer reported?',
    done: 'Incident acknowledged',
  },
  'system.reset': {
    positionals: ['plugin'],
    options: { command: 'text' },
    word: 'Reset breaker',
    title: ({ plugin, command = 'all commands' }) =>
      `Reset the breaker of ${String(plugin)} ${String(command)}?`,
    done: 'Breaker reset',
  },
  'system.resume': {
    positionals: [],
    word: 'Resume service',
    title: () => 'Resume the service?',
    done: 'Service resumed',
  },
  'system.reload': {
    positionals: [],
    word: 'Reload configuration',
    title: () => 'Reload the configuration?',
    done: 'Configuration reloaded',
  },
  'schedule.resume': {
    positionals: ['plugin', 'schedule_id'],
    word: 'Resume schedule',
    title: ({ plugin, schedule_id: id = 'default' }) =>
      `Resume the schedule ${String(id)} of ${String(plugin)}?`,
    done: 'Schedule resumed',
  },
  'plugin.enable': {
    positionals: ['plugin'],
    word: 'Enable plugin',
    title: ({ plugin }) => `Enable the plugin ${String(plugin)}?`,
    done: 'Plugin enabled',
  },
  'plugin.init': {
    positionals: ['plugin'],
    word: 'Run init',
    title: ({ plugin }) => `Run init of the plugin ${String(plugin)}?`,
    done: 'Init started',
  },
  'plugin.disable': {
    positionals: ['plugin'],
    word: 'Disable plugin',
    title: ({ plugin }) => `Disable the plugin ${String(plugin)}?`,
    done: 'Plugin disabled',
  },
  'package.enable': {
    positionals: ['package'],
    word: 'Enable package',
    title: ({ package: slug }) => `Enable the package ${String(slug)}?`,
    done: 'Package enabled',
  },
  'directive.approve': {
    positionals: ['id'],
    word: 'Approve directive',
    title: () => 'Approve this directive?',
    done: 'Directive approved',
  },
  'directive.cancel': {
    positionals: ['id'],
    word: 'Cancel directive',
    title: () => 'Cancel this directive?',
    done: 'Directive cancelled',
  },
  'tenant.resume': {
    positionals: ['slug'],
    word: 'Resume tenant',
    title: ({ slug }) => `Resume the tenant ${String(slug)}?`,
    done: 'Tenant resumed',
  },
};

/** Operations whose command has other words than their name. */
const namesByCommand: ReadonlyMap<string, Name> = new Map([['breaker.reset', 'system.reset']]);

/** Parses a command of a finding; undefined if the dashboard can't run it. */
export function readRemedy(line: string): Remedy | undefined {
  const [program, noun = '', action = '', ...rest] = splitCommand(line) ?? [];
  if (program !== 'ductile') return undefined;
  const command = `${noun}.${action}`;
  const name = namesByCommand.get(command) ?? (command as Name);
  const rules = Object.hasOwn(remedies, name) ? remedies[name] : undefined;
  const input = rules && readInput(rules, rest);
  if (rules === undefined || input === undefined) return undefined;
  const { word, done, reason } = rules;
  return { name, input, word, title: rules.title(input), done, reason };
}

/** Options that choose the service, which the dashboard ignores. */
const targetOptions = new Set(['--config', '--url']);

function readInput(
  { positionals, options = {} }: RemedyRules,
  parts: readonly string[],
): Record<string, unknown> | undefined {
  const input: Record<string, unknown> = {};
  let position = 0;
  for (let at = 0; at < parts.length; at += 1) {
    const part = parts[at] ?? '';
    if (!part.startsWith('--')) {
      const field = positionals[position];
      if (field === undefined || part.startsWith('-')) return undefined;
      input[field] = part;
      position += 1;
      continue;
    }
    const field = part.slice(2).replaceAll('-', '_');
    const value = parts[(at += 1)];
    if (value === undefined) return undefined;
    if (targetOptions.has(part)) continue;
    const kind = Object.hasOwn(options, field) ? options[field] : undefined;
    if (kind === undefined) return undefined;
    input[field] = toValue(value, kind);
  }
  const isMissing = position === 0 && positionals.length > 0;
  return isMissing ? undefined : input;
}

function toValue(value: string, kind: OptionKind): unknown {
  if (kind === 'number') return Number(value);
  return kind === 'list' ? value.split(',') : value;
}

const part = /"([^"\\$`]*)"|'([^']*)'|([^\s"'\\$`|&;<>()]+)/y;

/** Splits a command line into words; undefined if a shell would do more than start a program. */
export function splitCommand(command: string): string[] | undefined {
  const words: string[] = [];
  const text = command.trim();
  let at = 0;
  while (at < text.length) {
    part.lastIndex = at;
    const match = part.exec(text);
    if (match === null) return undefined;
    words.push(match[1] ?? match[2] ?? match[3] ?? '');
    at = part.lastIndex;
    if (at < text.length && !/\s/.test(text[at] ?? '')) return undefined;
    while (at < text.length && /\s/.test(text[at] ?? '')) at += 1;
  }
  return words;
}
