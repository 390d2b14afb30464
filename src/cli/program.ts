import { resolve } from 'node:path';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { isOffered } from '../operations/define.ts';
import type { CliSurface, JsonOutput, Operation } from '../operations/define.ts';
import { operations } from '../operations/index.ts';
import { HttpCaller } from './callers.ts';
import { addFlags } from './flags.ts';
import type { CliHost, CliIo } from './host.ts';
import { Printer, printError } from './print.ts';
import { version } from './version.ts';
import { rowsOf, showPlain, showPlan, views } from './views.ts';

/** Commands are the operations, plus the few that must work without a server. */
export async function runProgram(
  argv: readonly string[],
  host: CliHost,
  io: CliIo,
): Promise<number> {
  const session: Session = { host, io, exitCode: 0 };
  const program = makeProgram(session);
  try {
    await program.parseAsync(argv, { from: 'user' });
    return session.exitCode;
  } catch (thrown) {
    if (thrown instanceof CommanderError && isHelp(thrown)) return thrown.exitCode;
    const error = thrown instanceof CommanderError ? usageError(thrown) : toDuctileError(thrown);
    printError(error, io, argv.includes('--json'));
    return error.kind.exit;
  }
}

interface Session {
  readonly host: CliHost;
  readonly io: CliIo;
  exitCode: number;
}

/** What every command understands. */
interface Common {
  readonly config?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

const nouns: Readonly<Record<string, string>> = {
  system: 'The service as a whole: start, status, backup.',
  plugin: 'The programs that do the work.',
  job: 'Pieces of work: what became of them and why.',
  queue: 'What is running and what waits.',
};

function makeProgram(session: Session): Command {
  const { stdout, stderr } = session.io;
  const program = new Command('ductile')
    .description('An automation runtime that people and AI agents can trust with unattended work.')
    .version(version, '-V, --version')
    .option('--config <path>', 'the configuration, a directory or a file')
    .option('--json', 'print the answer, or the error, as JSON')
    .option('-v, --verbose', 'show more')
    .configureHelp({ showGlobalOptions: true })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: () => undefined,
    });
  const parents = new Map<string, Command>();
  for (const [noun, summary] of Object.entries(nouns)) {
    parents.set(noun, program.command(noun).description(summary));
  }
  for (const operation of operations) {
    const [noun = '', action = ''] = operation.name.split('.');
    const { cli } = operation;
    const parent = parents.get(noun);
    if (!isOffered(cli) || parent === undefined) continue;
    const { alias, isDefault = false } = cli;
    addOperation(parent.command(action, { isDefault }), operation, cli, cli.positionals, session);
    if (alias === undefined) continue;
    const short = program.command(alias.name, { hidden: true });
    addOperation(short, operation, cli, alias.positionals, session);
  }
  addLocalCommands(program, parents.get('system') ?? program, session);
  return program;
}

function addOperation(
  command: Command,
  operation: Operation,
  surface: CliSurface,
  positionals: readonly string[] = [],
  session: Session,
): void {
  const readInput = addFlags(command, operation, surface, positionals);
  const examples = surface.examples.map((example) => `  $ ${example}`).join('\n');
  command
    .description(operation.summary)
    .addHelpText('after', `\nExamples:\n${examples}`)
    .action(async () => {
      const options = command.optsWithGlobals<Common & Record<string, unknown>>();
      const input = await readInput(command.processedArgs, options, session.io);
      const output = await ask(operation.name, input, options.config, session.host);
      session.exitCode = show(operation, surface, output, options, session.io);
    });
}

/** Asks the server that runs, or opens the ledger when none does. */
async function ask(
  name: string,
  input: Readonly<Record<string, unknown>>,
  config: string | undefined,
  host: CliHost,
): Promise<JsonOutput> {
  const socket = await host.findSocket(config);
  if (socket !== undefined) return new HttpCaller(socket).call(name, input);
  const door = await host.openLocal(config);
  try {
    return await door.caller.call(name, input);
  } finally {
    await door.close();
  }
}

function show(
  { name }: Operation,
  surface: CliSurface,
  output: JsonOutput,
  { json = false, verbose = false }: Common,
  io: CliIo,
): number {
  const printer = new Printer(io, verbose);
  const isPlan = output['dry_run'] === true;
  const { table } = surface;
  if (json) printer.json(output);
  else if (isPlan) showPlan(output, printer);
  else if (table !== undefined) printer.table(rowsOf(output[table.rows]), table);
  else (views[name] ?? showPlain)(output, printer);
  return isPlan ? 0 : (surface.exitCode?.(output) ?? 0);
}

function addLocalCommands(program: Command, system: Command, session: Session): void {
  const { host, io } = session;
  system
    .command('start')
    .description('Run the service in the foreground.')
    .addHelpText('after', '\nExamples:\n  $ ductile system start --config ~/.config/ductile')
    .action(async (_, command: Command) => {
      session.exitCode = await host.start(command.optsWithGlobals<Common>().config);
    });
  system
    .command('restore')
    .description('Put a backup in the place of the ledger; the service must not be running.')
    .requiredOption('--from <file>', 'a file that `system backup` wrote')
    .addHelpText('after', '\nExamples:\n  $ ductile system restore --from ductile-backup.db')
    .action(async ({ from }: { from: string }, command: Command) => {
      const { config, json = false, verbose = false } = command.optsWithGlobals<Common>();
      const output = await host.restore(config, resolve(io.cwd, from));
      const printer = new Printer(io, verbose);
      if (json) printer.json(output);
      else showPlain(output, printer);
    });
  program
    .command('demo')
    .description('Show what Ductile does, in a directory of its own that is removed again.')
    .option('--dir <directory>', 'use and keep this directory')
    .option('--rounds <count>', 'stop by itself after so many rounds', toCount)
    .action(async ({ dir, rounds }: { dir?: string; rounds?: number }) => {
      const print = (line: string): void => void io.stdout.write(`${line}\n`);
      session.exitCode = await host.demo({ directory: dir, rounds, print });
    });
  program
    .command('version')
    .description('Print the version.')
    .action((_, command: Command) => {
      const isJson = command.optsWithGlobals<Common>().json === true;
      io.stdout.write(isJson ? `${JSON.stringify({ version })}\n` : `ductile ${version}\n`);
    });
}

function toCount(text: string): number {
  const count = Number(text);
  if (Number.isSafeInteger(count) && count > 0) return count;
  throw new InvalidArgumentError('It must be a whole number above 0.');
}

function isHelp({ code }: CommanderError): boolean {
  return ['commander.help', 'commander.helpDisplayed', 'commander.version'].includes(code);
}

/** Commander's own complaint in the words of the catalogue. */
function usageError({ message }: CommanderError): DuctileError {
  const [said = '', guess] = message.replace(/^error: /, '').split('\n');
  const hint = guess?.replaceAll(/[()]/g, '') ?? 'See `ductile --help`, also after any command.';
  return new DuctileError('INPUT_INVALID', said, { hint });
}
