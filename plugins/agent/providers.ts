/** Command lines of known agents, and of those that the operator describes. */
import { ConfigError, Fields, isObject } from '../../sdk/typescript/ductile-plugin.ts';

export interface Provider {
  readonly name: string;
  /** Determines the options; `other` uses only what the operator wrote. */
  readonly kind: 'claude' | 'codex' | 'other';
  /** The program and its fixed arguments. */
  readonly command: readonly string[];
  /** For `other`: the command of a continued conversation, with `{session}`. */
  readonly resume: readonly string[] | undefined;
  readonly output: 'claude' | 'codex' | 'text';
}

export const PLACEHOLDER = /\{(prompt|prompt_file|model|effort|session)\}/g;
const KINDS = ['claude', 'codex'] as const;
const OUTPUTS = ['text', 'claude', 'codex'] as const;

export function readProviders(config: Fields): ReadonlyMap<string, Provider> {
  const providers = new Map<string, Provider>();
  for (const kind of KINDS) {
    providers.set(kind, { name: kind, kind, command: [kind], resume: undefined, output: kind });
  }
  for (const [name, value] of Object.entries(config.mapping('providers'))) {
    if (!/^[a-z][a-z0-9_-]{0,31}$/.test(name)) {
      throw config.refuse('providers', `cannot have one named '${name}'`);
    }
    if (!isObject(value)) throw config.refuse('providers', `must give ${name} a mapping`);
    const place = `config.providers.${name}`;
    const fields = new Fields(value, place, (text) => new ConfigError(text));
    const usual = providers.get(name);
    providers.set(name, usual === undefined ? readOther(name, fields) : readKnown(usual, fields));
  }
  return providers;
}

/** Reads the program's path and additional options for every run. */
function readKnown(usual: Provider, fields: Fields): Provider {
  refuseOthers(fields, ['command']);
  const command = readCommand(fields, 'command');
  if (command === undefined) return usual;
  const placeholder = command.join(' ').match(PLACEHOLDER)?.[0];
  if (placeholder !== undefined) {
    throw fields.refuse(
      'command',
      `needs no ${placeholder}: it is known how ${usual.name} takes it`,
    );
  }
  return { ...usual, command };
}

function readOther(name: string, fields: Fields): Provider {
  refuseOthers(fields, ['command', 'resume', 'output']);
  const command = readCommand(fields, 'command');
  if (command === undefined) throw fields.refuse('command', 'must be set');
  const resume = readCommand(fields, 'resume');
  if (resume?.some((part) => part.includes('{session}')) === false) {
    throw fields.refuse('resume', 'must say where {session} goes');
  }
  if (command.some((part) => part.includes('{session}'))) {
    throw fields.refuse('command', 'begins a session; {session} belongs in resume');
  }
  const written = fields.text('output') ?? 'text';
  const output = OUTPUTS.find((known) => known === written);
  if (output === undefined) throw fields.refuse('output', `must be one of ${OUTPUTS.join(', ')}`);
  if (resume !== undefined && output === 'text') {
    throw fields.refuse('resume', 'needs an output that names the session: claude or codex');
  }
  return { name, kind: 'other', command, resume, output };
}

function readCommand(fields: Fields, key: string): readonly string[] | undefined {
  const parts = fields.texts(key);
  if (fields.get(key) === null) return undefined;
  const [program] = parts;
  if (program === undefined || program.startsWith('-') || program.match(PLACEHOLDER) !== null) {
    throw fields.refuse(key, 'must be a list that begins with a program');
  }
  if (parts.some((part) => part.includes('\0'))) {
    throw fields.refuse(key, 'must not contain the character U+0000');
  }
  return parts;
}

function refuseOthers(fields: Fields, keys: readonly string[]): void {
  const other = Object.keys(fields.values).find((key) => !keys.includes(key));
  if (other !== undefined) throw fields.refuse(other, `is not a setting; ${keys.join(', ')} are`);
}
