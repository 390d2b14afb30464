import type { Command, Option } from 'commander';
import { limits } from '../base/limits.ts';
import { toVisibleText } from '../base/text.ts';
import { ask } from './ask.ts';
import { commands, type CommandDefinition } from './commands.ts';
import type { CliHost, CliIo, Common, Session } from './host.ts';
import { showCell } from './print.ts';
import { makeProgram } from './program.ts';
import { rowsOf } from './view-parts.ts';
import { DuctileError } from '../base/errors.ts';

/**
 * Prints what may stand in the place of the last word, one on each line, a description behind a tab.
 * Whatever goes wrong, a shell that asks gets fewer words and never an error.
 */
export async function runComplete(
  given: readonly string[],
  host: CliHost,
  io: CliIo,
): Promise<number> {
  const words = given[0] === '--' ? given.slice(1) : given;
  try {
    const session: Session = { host, io, argv: words, exitCode: 0 };
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
    // No words is the answer.
  }
  return 0;
}

interface Candidate {
  readonly value: string;
  readonly description?: string;
}

async function complete(session: Session, words: readonly string[]): Promise<Candidate[]> {
  const program = makeProgram(session, words);
  const { command, awaited, positionals, options } = read(program, words.slice(0, -1));
  const current = words.at(-1) ?? '';
  const definition = definitionOf(command);
  if (awaited !== undefined) {
    return valuesOf(session, options, definition, awaited.name().replaceAll('-', '_'), awaited);
  }
  if (current.startsWith('-')) return flagsOf(command, program);
  const actions = command.commands.filter((inner) => !isHidden(inner));
  if (actions.length > 0) {
    if (positionals > 0) return [];
    return actions.map((inner) => ({ value: inner.name(), description: inner.description() }));
  }
  const argument = command.registeredArguments[positionals];
  if (argument === undefined) return flagsOf(command, program);
  return valuesOf(session, options, definition, argument.name().replaceAll('-', '_'));
}

interface Reading {
  readonly command: Command;
  /** The flag whose value comes next. */
  readonly awaited: Option | undefined;
  readonly positionals: number;
  readonly options: Common;
}

/** What the words before the current one say, as far as they can be understood. */
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
    options: {
      ...(config === undefined ? {} : { config }),
      ...(url === undefined ? {} : { url }),
      ...(token === undefined ? {} : { token }),
    },
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

/** Commander keeps it to itself; its help knows what it shows. */
function isHidden(command: Command): boolean {
  const { parent } = command;
  return parent !== null && !parent.createHelp().visibleCommands(parent).includes(command);
}

function definitionOf(command: Command): CommandDefinition | undefined {
  const noun = command.parent?.name();
  const action = command.name();
  return commands.find(
    (definition) =>
      (definition.noun === noun && definition.action === action) ||
      definition.alias?.name === action,
  );
}

const pathNames = new Set(['config', 'from', 'to', 'dir', 'body']);

async function valuesOf(
  session: Session,
  options: Common,
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
  session: Session,
  options: Common,
  noun: string | undefined,
  name: string,
): Promise<Candidate[]> {
  const subject = ['id', 'name'].includes(name) ? noun : name.replace(/_id$/, '');
  if (subject === 'plugin') {
    const answer = await ask(session, options, 'plugin.list', {});
    return rowsOf(answer['plugins']).map(({ name: value, description }) => ({
      value: String(value),
      description: typeof description === 'string' ? description : '',
    }));
  }
  const list = commands.find((definition) => definition.name === `${subject ?? ''}.list`);
  const [key, ...rest] = list?.table?.columns.map(([, field]) => field) ?? [];
  if (list?.table === undefined || key === undefined) return [];
  const hasLimit = list.fields.some(({ field }) => field === 'limit');
  const answer = await ask(session, options, list.name, hasLimit ? { limit: LATEST } : {});
  return rowsOf(answer[list.table.rows]).map((row) => ({
    value: String(row[key]),
    description: rest
      .slice(0, 3)
      .map((field) => showCell(row[field]))
      .join(' '),
  }));
}

/** What a shell reads to complete `ductile`; each asks the hidden `__complete` for the words. */
export function completionScript(shell: string): string {
  const script = Object.entries(scripts).find(([name]) => name === shell)?.[1];
  if (script !== undefined) return script;
  throw new DuctileError('INPUT_INVALID', `there is no completion for ${shell}`, {
    place: 'shell',
    hint: 'Name bash, zsh or fish.',
  });
}

/** A line of `__complete` that asks for the names of files. */
export const FILES = ':files';

// Bash takes a colon or an equals sign for the end of a word, and wants only what follows it.
const bash = `# Bash completion for ductile: source <(ductile completion bash)
_ductile() {
  local line value current prefix
  local words=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  if [[ \${COMP_WORDBREAKS} == *:* || \${COMP_WORDBREAKS} == *=* ]]; then
    local text="\${COMP_LINE:0:COMP_POINT}"
    read -r -a words <<<"$text"
    words=("\${words[@]:1}")
    [[ $text == *[[:space:]] ]] && words+=("")
  fi
  current="\${words[\${#words[@]}-1]}"
  prefix="\${current%"\${current##*[:=]}"}"
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == ${FILES} ]]; then
      compopt -o default 2>/dev/null
      continue
    fi
    value="\${line%%$'\\t'*}"
    COMPREPLY+=("\${value#"$prefix"}")
  done < <("\${COMP_WORDS[0]}" __complete -- "\${words[@]}" 2>/dev/null)
}
complete -F _ductile ductile
`;

const zsh = `#compdef ductile
# Zsh completion for ductile: source <(ductile completion zsh)
_ductile() {
  local line value files=0
  local -a values
  while IFS= read -r line; do
    if [[ $line == ${FILES} ]]; then
      files=1
      continue
    fi
    value="\${\${line%%$'\\t'*}//:/\\\\:}"
    [[ $line == *$'\\t'* ]] && value="$value:\${line#*$'\\t'}"
    values+=("$value")
  done < <("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  (( \${#values} )) && _describe -V ductile values
  (( files )) && _files
}
compdef _ductile ductile
`;

const fish = `# Fish completion for ductile: ductile completion fish | source
function __ductile_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  for line in ($words[1] __complete -- $words[2..-1] "$current" 2>/dev/null)
    if test "$line" = '${FILES}'
      __fish_complete_path "$current"
    else
      echo -- $line
    end
  end
end
complete -c ductile -f -a '(__ductile_complete)'
`;

const scripts = { bash, zsh, fish };
