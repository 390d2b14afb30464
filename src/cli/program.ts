import { Command, CommanderError, Help, Option } from 'commander';
import { toDuctileError, DuctileError } from '../base/errors.ts';
import { callOperation, type OperationInput } from './call-operation.ts';
import { callAndWait, EXIT_INTERRUPTED } from './await-end.ts';
import { commands, type CommandDefinition } from './commands.ts';
import { addFlags } from './flags.ts';
import { followPages, withProgress, readInterval, watchCommand } from './watch.ts';
import type { CliHost, CliIo, CommonFlags, CliSession } from './host.ts';
import { addPartsHelp, describeNoun, groupActions, renderProgramHelp } from './help.ts';
import { addOwnCommands } from './own.ts';
import { printError, showCell } from './print.ts';
import { repeatTarget, repeatTargetInError } from './repeat-target.ts';
import { rewriteArguments, rewriteOlderSpelling } from './original-commands.ts';
import { findExitCode, showResult } from './show.ts';
import { checkFields, showJson } from './print-json.ts';
import { version } from './version.ts';
import { nearest, suggest } from '../base/text.ts';

/** Runs a command: an operation, or one of the few that work without a service. */
export async function runProgram(
  argv: readonly string[],
  host: CliHost,
  io: CliIo,
): Promise<number> {
  if (argv.length === 0) {
    io.stdout.write(welcome);
    return 0;
  }
  const session: CliSession = { host, io, argv, exitCode: 0 };
  let [rewritten, program]: [readonly string[], Command | undefined] = [argv, undefined];
  try {
    rewritten = rewriteOlderSpelling(await rewriteArguments(argv, session));
    program = makeProgram(session, rewritten);
    await program.parseAsync(rewritten, { from: 'user' });
    return session.exitCode;
  } catch (thrown) {
    if (thrown instanceof CommanderError && isHelp(thrown)) return thrown.exitCode;
    const error =
      thrown instanceof CommanderError && program !== undefined
        ? usageError(thrown, rewritten, program)
        : toDuctileError(thrown);
    printError(repeatTargetInError(error, argv), io, argv.includes('--json'));
    return error.kind.exit;
  }
}

/** Creates only the commands that the words can mean, because creating all of them takes long. */
export function makeProgram(session: CliSession, words: readonly string[]): Command {
  const { stdout, stderr } = session.io;
  const given = new Set(words);
  const program: Command = new Command('ductile')
    .description('Self-hosted automation that survives crashes.')
    .version(version, '-V, --version')
    .option('--config <path>', 'directory or file of the configuration')
    .option('--url <address>', 'address of a service elsewhere (also DUCTILE_URL)')
    .option(
      '--token <token>',
      'API token; prefer DUCTILE_TOKEN, because other users can see arguments',
    )
    .option('--json', 'print the result or the error as JSON, at most 8 KB')
    .option('--full', 'with --json: print the whole result, regardless of its size')
    .option('--fields <names>', 'show only these fields or columns, such as id,status')
    .option('-v, --verbose', 'show more details')
    .option('--no-color', 'disable colors (also NO_COLOR)')
    .configureHelp({
      showGlobalOptions: true,
      formatHelp: (command, helper) =>
        command === program
          ? renderProgramHelp(program, helper)
          : Help.prototype.formatHelp.call(helper, command, helper),
    })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: () => undefined,
    });
  const parents = new Map<string, Command>();
  for (const noun of new Set(['system', ...commands.map((definition) => definition.noun)])) {
    parents.set(noun, makeNoun(program, noun));
  }
  for (const definition of commands) {
    const { noun, action, flag, alias, positionals, isDefault = false } = definition;
    // The flag of another command selects it.
    if (flag !== undefined) continue;
    if (given.has(noun)) {
      const parent = parents.get(noun) ?? program;
      const command = parent.command(action, { isDefault }).description(definition.summary);
      const isPossible = isDefault || given.has(action);
      if (isPossible) addOperation(command, definition, positionals, session);
    }
    if (alias === undefined || !given.has(alias.name)) continue;
    // If the short form is also a noun, it is used for a word that isn't one of the noun's actions.
    const short =
      parents.get(alias.name)?.command(noun, { hidden: true, isDefault: true }) ??
      program.command(alias.name, { hidden: true });
    addOperation(short, definition, alias.positionals, session);
  }
  addOwnCommands(program, parents.get('system') ?? program, session);
  for (const [noun, parent] of parents) if (given.has(noun)) groupActions(parent);
  return program;
}

function makeNoun(program: Command, noun: string): Command {
  const examples = commands
    .filter((definition) => definition.noun === noun)
    .flatMap((definition) => definition.examples.slice(0, 1));
  return program
    .command(noun)
    .description(describeNoun(noun))
    .addHelpText('after', examplesText(examples));
}

function addOperation(
  command: Command,
  definition: CommandDefinition,
  positionals: readonly string[] = [],
  session: CliSession,
): void {
  const readInput = addFlags(command, definition, positionals);
  if (definition.watch === true) {
    command.addOption(new Option('--watch [interval]', 'refresh continuously (default: every 2s)'));
  }
  if (definition.follow === true) {
    command.addOption(new Option('-f, --follow', 'show new entries until Ctrl-C'));
  }
  const selectable = findSelectable(definition);
  for (const { flag, summary } of selectable) {
    command.option(`--${flag}`, summary.charAt(0).toLowerCase() + summary.slice(1, -1));
  }
  addPartsHelp(command, definition);
  command
    .description(definition.summary)
    .addHelpText('after', examplesText([definition, ...selectable].flatMap((one) => one.examples)))
    .action(async () => {
      const options = command.optsWithGlobals<CommonFlags & Record<string, unknown>>();
      const input = await readInput(command.processedArgs, options, session.io);
      const selected = selectable.find(({ flag = '' }) => options[flag] === true);
      refuseUnusedInput(selected, input);
      await perform(session, selected ?? definition, input, options);
    });
}

/** Finds the commands that a flag of this one selects, such as `config show --active`. */
function findSelectable({ noun, action, flag }: CommandDefinition): readonly CommandDefinition[] {
  return commands.filter(
    (one) =>
      flag === undefined && one.flag !== undefined && one.noun === noun && one.action === action,
  );
}

/** Refuses values for the command that a flag has replaced. */
function refuseUnusedInput(
  selected: CommandDefinition | undefined,
  input: Readonly<Record<string, unknown>>,
): void {
  const unused = Object.keys(input).find(
    (key) => selected !== undefined && !selected.fields.some(({ field }) => field === key),
  );
  if (selected?.flag === undefined || unused === undefined) return;
  throw new DuctileError('INPUT_INVALID', `--${selected.flag} and ${unused} cannot be combined`, {
    place: unused,
    hint: `Leave out --${selected.flag} or ${unused}.`,
  });
}

async function perform(
  session: CliSession,
  definition: CommandDefinition,
  input: Readonly<Record<string, unknown>>,
  options: CommonFlags & Record<string, unknown>,
): Promise<void> {
  const { io } = session;
  checkFields(definition, options);
  const read = async (request: OperationInput) =>
    repeatTarget(await callOperation(session, options, definition.name, request), session.argv);
  if (definition.follow === true && options['follow'] === true) {
    session.exitCode = await followPages(io, { definition, options, input, look: read });
    return;
  }
  const look = () => read(input);
  const intervalMs = definition.watch === true ? readInterval(options['watch']) : undefined;
  if (intervalMs !== undefined) {
    const { argv } = session;
    const keepRows = input['limit'] !== undefined;
    session.exitCode = await watchCommand(io, {
      definition,
      options,
      intervalMs,
      argv,
      keepRows,
      look,
    });
    return;
  }
  const output = await withProgress(io, nameWork(definition, input), async () => {
    const result = await callAndWait(session, options, definition, input);
    return result === undefined ? undefined : repeatTarget(result, session.argv);
  });
  // The pending request would keep the program alive.
  if (output === undefined) return io.exit(EXIT_INTERRUPTED);
  if (options.json !== true) showResult(definition, output, options, io);
  else await showJson(session, { definition, options, input, output, look: read });
  session.exitCode = await findExitCode(definition, output);
}

/** Names the work in progress, and what it waits for. */
function nameWork(
  { noun, action, positionals: [first = ''] = [] }: CommandDefinition,
  input: OperationInput,
) {
  const { [first]: named, wait = false } = input;
  if (wait === false) return `${noun} ${action}`;
  return `${noun} ${action}: waiting for the end of ${showCell(named)}`;
}

function examplesText(examples: readonly string[]): string {
  if (examples.length === 0) return '';
  return `\nExamples:\n${examples.map((example) => `  $ ${example}`).join('\n')}`;
}

function isHelp({ code }: CommanderError): boolean {
  return ['commander.help', 'commander.helpDisplayed', 'commander.version'].includes(code);
}

/** Shown if the user types the name alone. */
export const welcome = `ductile ${version}: self-hosted automation that survives crashes

First steps
  ductile demo             run a small automation in a temporary directory
  ductile init             create a configuration in ~/.config/ductile
  ductile plugin list      list the plugins
  ductile plugin run echo  run a plugin and wait for its result
  ductile system start     run the service in the foreground

With a running service
  ductile doctor           list problems and the commands that resolve them
  ductile status           show the health of the service, the queue and recent jobs
  ductile job list         list recent jobs and their status
  ductile logs --follow    stream the output of plugins
  ductile mcp              run an MCP server for AI agents

List all commands with ductile --help. Show the help of a command with ductile job --help.
`;

/** Converts an error of commander to one of the catalogue, after looking for its cause. */
function usageError(
  { code, message }: CommanderError,
  argv: readonly string[],
  program: Command,
): DuctileError {
  const known = noSuchAction(code, argv) ?? noSuchOption(code, argv, program);
  if (known !== undefined) return known;
  const [sentence = '', guess] = message.replace(/^error: /, '').split('\n');
  const help = ['ductile', ...commandWords(argv), '--help'].join(' ');
  const hint = guess?.replaceAll(/[()]/g, '') ?? `See \`${help}\`.`;
  // A surplus argument may be a secret.
  return new DuctileError('INPUT_INVALID', sentence.replace(/(but got \d+): .*$/, '$1'), { hint });
}

/**
 * A word that isn't an action is passed to the default action, which then reports a surplus
 * argument.
 */
function noSuchAction(code: string, argv: readonly string[]): DuctileError | undefined {
  if (!['commander.excessArguments', 'commander.unknownOption'].includes(code)) return undefined;
  const [noun = '', word = ''] = argv.slice(nounAt(argv));
  const actions = commands.filter((one) => one.noun === noun && one.flag === undefined);
  const names = actions.map(({ action }) => action);
  if (word === '' || word.startsWith('-') || names.includes(word)) return undefined;
  // The default action may accept any word.
  const isOpen =
    commands.some(({ alias }) => alias?.name === noun) ||
    actions.some(({ isDefault, positionals = [] }) => isDefault === true && positionals.length > 0);
  if (isOpen && nearest(word, names) === undefined) return undefined;
  return new DuctileError('INPUT_INVALID', `unknown command '${word}'`, {
    hint: suggest(word, names, `actions of ${noun}`),
  });
}

/** A missing option may be there with a misspelt name. */
function noSuchOption(
  code: string,
  argv: readonly string[],
  program: Command,
): DuctileError | undefined {
  if (code !== 'commander.missingMandatoryOptionValue') return undefined;
  const [noun, action] = commandWords(argv);
  const parent = program.commands.find((one) => one.name() === noun);
  const command = parent?.commands.find((one) => one.name() === action);
  const known = [program, command]
    .flatMap((one) => one?.options ?? [])
    .map(({ long }) => long ?? '');
  for (const word of argv.filter((one) => one.startsWith('--'))) {
    const [flag = ''] = word.split('=');
    const close = known.includes(flag) ? undefined : nearest(flag, known);
    if (close === undefined) continue;
    const hint = `Did you mean ${close}?`;
    return new DuctileError('INPUT_INVALID', `unknown option '${flag}'`, { hint });
  }
  return undefined;
}

/** Finds the noun and the action among the words; options may come before them. */
function commandWords(argv: readonly string[]): string[] {
  const [noun = '', action = ''] = argv.slice(nounAt(argv));
  const actions = commands.filter((definition) => definition.noun === noun);
  if (actions.length === 0) return [];
  return actions.some((definition) => definition.action === action) ? [noun, action] : [noun];
}

function nounAt(argv: readonly string[]): number {
  const at = argv.findIndex((word) => commands.some((definition) => definition.noun === word));
  return at === -1 ? argv.length : at;
}
