import { compact } from '../base/json.ts';
import type { Command, Option } from 'commander';
import { limits } from '../base/limits.ts';
import { toVisibleText } from '../base/text.ts';
import { callOperation } from './call-operation.ts';
import { commands, type CommandDefinition } from './commands.ts';
import { FILES } from './completion.ts';
import type { CliHost, CliIo, CommonFlags, CliSession } from './host.ts';
import { showCell } from './print.ts';
import { listProgramCommands } from './help.ts';
import { rewriteOlderSpelling } from './original-commands.ts';
import { makeProgram } from './program.ts';
import { rowsOf } from './view-parts.ts';

/**
 * Prints the candidates for the last word, one per line, with a description after a tab. Errors are
 * swallowed: the shell gets fewer words instead.
 */
export async function runComplete(
  given: readonly string[],
  host: CliHost,
  io: CliIo,
): Promise<number> {
  const words = given[0] === '--' ? given.slice(1) : given;
  try {
    const session: CliSession = { host, io, argv: words, exitCode: 0 };
    const over = new AbortController();
    const late = io.pause(limits.completionMs, over.signal).then((): Candidate[] => []);
    const found = await Promise.race([complete(session, words), late]);
    over.abort();
    const current = words.at(-1) ?? '';
    for (const { value, description = '' } of found) {
      if (value !== FILES && !value.startsWith(current)) continue;
      const line = description === '' ? value : `${value}\t${toVisibleText(description)}`;
      io.stdout.write(`${line}\n`);
    }
  } catch {
    // The result is an empty list.
  }
  return 0;
}

interface Candidate {
  readonly value: string;
  readonly description?: string;
}

async function complete(session: CliSession, words: readonly string[]): Promise<Candidate[]> {
  const current = words.at(-1) ?? '';
  const before = rewriteOlderSpelling(words.slice(0, -1));
  const program = makeProgram(session, [...before, current]);
  const { command, awaited, positionals, options } = read(program, before);
  const definition = definitionOf(command);
  if (awaited !== undefined) {
    return valuesOf(session, options, definition, awaited.name().replaceAll('-', '_'), awaited);
  }
  if (current.startsWith('-')) return flagsOf(command, program);
  const actions = command.commands.filter((inner) => !isHidden(inner));
  if (actions.length > 0) {
    if (positionals > 0) return [];
    if (command === program) {
      return listProgramCommands(program).map(({ name, description }) => ({
        value: name,
        description,
      }));
    }
    return actions.map((inner) => ({ value: inner.name(), description: inner.description() }));
  }
  const argument = command.registeredArguments[positionals];
  if (argument === undefined) return flagsOf(command, program);
  return valuesOf(session, options, definition, argument.name().replaceAll('-', '_'));
}

interface Reading {
  readonly command: Command;
  /** The flag that needs the next word as its value. */
  readonly awaited: Option | undefined;
  readonly positionals: number;
  readonly options: CommonFlags;
}

/** Reads the words before the current one, as far as they can be parsed. */
function read(program: Command, words: readonly string[]): Reading {
  let command = program;
  let awaited: Option | undefined;
  let positionals = 0;
  const given: Record<string, string> = {};
  for (const word of words) {
    if (awaited !== undefined) {
      given[awaited.attributeName()] = word;
      awaited = undefined;
      continue;
    }
    if (word.startsWith('-')) {
      const option = findOption([command, program], word);
      if (option?.required === true && !word.includes('=')) awaited = option;
      continue;
    }
    const inner = command.commands.find((candidate) => candidate.name() === word);
    if (inner === undefined) positionals += 1;
    else command = inner;
  }
  const { config, url, token } = given;
  return {
    command,
    awaited,
    positionals,
    options: compact({ config, url, token }),
  };
}

function findOption(holders: readonly Command[], word: string): Option | undefined {
  const [name = ''] = word.split('=');
  return holders
    .flatMap(({ options }) => options)
    .find(({ long, short }) => long === name || short === name);
}

function flagsOf(command: Command, program: Command): Candidate[] {
  const options = [...command.options, ...(command === program ? [] : program.options)];
  return options.flatMap(({ long, description, hidden }) =>
    long === null || long === undefined || hidden ? [] : [{ value: long, description }],
  );
}

/** Commander doesn't expose it, but its help shows only visible commands. */
function isHidden(command: Command): boolean {
  const { parent } = command;
  return parent !== null && !parent.createHelp().visibleCommands(parent).includes(command);
}

function definitionOf(command: Command): CommandDefinition | undefined {
  const noun = command.parent?.name();
  const action = command.name();
  return commands.find(
    (definition) =>
      (definition.flag === undefined && definition.noun === noun && definition.action === action) ||
      definition.alias?.name === action,
  );
}

const pathNames = new Set(['config', 'from', 'to', 'dir', 'body']);

async function valuesOf(
  session: CliSession,
  options: CommonFlags,
  definition: CommandDefinition | undefined,
  name: string,
  option?: Option,
): Promise<Candidate[]> {
  const field = definition?.fields.find((candidate) => fieldMatches(candidate.field, name));
  const choices = field?.choices ?? [];
  if (choices.length > 0) return choices.map((value) => ({ value }));
  if (name === 'shell') return ['bash', 'zsh', 'fish'].map((value) => ({ value }));
  if (name === 'level') return ['debug', 'info', 'warn', 'error'].map((value) => ({ value }));
  const isPath =
    (field !== undefined && definition?.paths?.includes(field.field) === true) ||
    pathNames.has(name) ||
    name.endsWith('_file') ||
    option?.flags.includes('<file>') === true;
  if (isPath) return [{ value: FILES }];
  return live(session, options, definition?.noun, name);
}

/** `--job` is the short spelling of `job_id`. */
function fieldMatches(field: string, name: string): boolean {
  return field === name || field === `${name}_id`;
}

const LATEST = 20;

async function live(
  session: CliSession,
  options: CommonFlags,
  noun: string | undefined,
  name: string,
): Promise<Candidate[]> {
  const subject = ['id', 'name'].includes(name) ? noun : name.replace(/_id$/, '');
  if (subject === 'plugin') {
    const answer = await callOperation(session, options, 'plugin.list', {});
    return rowsOf(answer['plugins']).map(({ name: value, description }) => ({
      value: String(value),
      description: typeof description === 'string' ? description : '',
    }));
  }
  const list = commands.find((definition) => definition.name === `${subject ?? ''}.list`);
  const [key, ...rest] = list?.table?.columns.map(([, field]) => field) ?? [];
  if (list?.table === undefined || key === undefined) return [];
  const hasLimit = list.fields.some(({ field }) => field === 'limit');
  const answer = await callOperation(
    session,
    options,
    list.name,
    hasLimit ? { limit: LATEST } : {},
  );
  return rowsOf(answer[list.table.rows]).map((row) => ({
    value: String(row[key]),
    description: rest
      .slice(0, 3)
      .map((field) => showCell(row[field]))
      .join(' '),
  }));
}
