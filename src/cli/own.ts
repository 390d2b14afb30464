import { resolve } from 'node:path';
import { InvalidArgumentError, type Command } from 'commander';
import { isObject } from '../base/json.ts';
import type { JsonOutput } from '../operation/define.ts';
import { isDryRun } from '../operation/request.ts';
import { findTarget, refuseRemote } from './call-operation.ts';
import { makePrinter } from './print.ts';
import type { CommonFlags, CliSession } from './host.ts';
import { printJson } from './print-json.ts';
import { version } from './version.ts';
import { showPlan } from './show.ts';
import { showTransfer } from '../engine/view.ts';

/** Flags of every command that changes something. */
interface ModeFlags {
  readonly dryRun?: boolean;
  readonly apply?: boolean;
}

const APPLY = 'make the change (the default)';

/** Adds commands that aren't operations: they are about this program, or work without a service. */
export function addOwnCommands(program: Command, system: Command, session: CliSession): void {
  addStart(system, session);
  addRehearse(system, session);
  addRestore(system, session);
  addImport(system, session);
  addMigrate(system, session);
  addInit(program, session);
  addDemo(program, session);
  addLogs(program, session);
  addExport(program, session);
  addApi(program, session);
  addUi(program, session);
  addDocs(program, session);
  addWatch(program, session);
  addMcp(program, session);
  addSkills(program, session);
  addCompletion(program, session);
  program
    .command('version')
    .description('Print the version.')
    .addHelpText('after', '\nExamples:\n  $ ductile version --json')
    .action((_, command: Command) => {
      const isJson = command.optsWithGlobals<CommonFlags>().json === true;
      session.io.stdout.write(isJson ? `${JSON.stringify({ version })}\n` : `ductile ${version}\n`);
    });
}

function addStart(system: Command, session: CliSession): void {
  system
    .command('start')
    .description('Run the service in the foreground.')
    .addHelpText('after', '\nExamples:\n  $ ductile system start --config ~/.config/ductile')
    .action(async (_, command: Command) => {
      session.exitCode = await session.host.start(readLocalFlags(command).config);
    });
}

/**
 * Adds the command that `ductile prove` starts and kills; only `prove` prepares such a directory.
 */
function addRehearse(system: Command, session: CliSession): void {
  system
    .command('rehearse', { hidden: true })
    .description('Run the service on a copy of the database, with stubs for the plugins.')
    .requiredOption('--in <directory>', 'directory that `ductile prove` has prepared')
    .action(async ({ in: directory }: { in: string }, command: Command) => {
      const { config } = readLocalFlags(command);
      session.exitCode = await session.host.rehearse(config, directory);
    });
}

function addRestore(system: Command, session: CliSession): void {
  const restore = system
    .command('restore')
    .description('Replace the database with a backup. The service must not be running.')
    .requiredOption('--from <file>', 'a file that `system backup` wrote')
    .addHelpText('after', '\nExamples:\n  $ ductile system restore --from ductile-backup.db');
  runOnCopy(restore, session, 'restore');
}

function addImport(system: Command, session: CliSession): void {
  const importing = system
    .command('import')
    .description(
      'Import exported databases into SQLite or PostgreSQL. The service must not be running.',
    )
    .requiredOption('--from <directory>', 'a directory that `system export` wrote')
    .addHelpText('after', '\nExamples:\n  $ ductile system import --from ./moved');
  runOnCopy(importing, session, 'import');
}

/** Runs a command that replaces ledgers by the copy that `--from` names. */
function runOnCopy(target: Command, session: CliSession, action: 'restore' | 'import'): void {
  target
    .option('--dry-run', 'check everything, show the plan and change nothing')
    .option('--apply', APPLY)
    .action(async ({ from, dryRun, apply }: { from: string } & ModeFlags, command: Command) => {
      const options = readLocalFlags(command);
      const path = resolve(session.io.cwd, from);
      const output = await session.host[action](options.config, path, isDryRun(dryRun, apply));
      report(session, options, output);
    });
}

function addMigrate(system: Command, session: CliSession): void {
  system
    .command('migrate')
    .description('Migrate all databases to the current schema. Starting the service does the same.')
    .option('--dry-run', 'show the plan and change nothing')
    .option('--apply', APPLY)
    .addHelpText('after', '\nExamples:\n  $ ductile system migrate')
    .action(async ({ dryRun, apply }: ModeFlags, command: Command) => {
      const options = readLocalFlags(command);
      const output = await session.host.migrate(options.config, isDryRun(dryRun, apply));
      report(session, options, output);
      if (hasFailedTenant(output)) session.exitCode = 1;
    });
}

function addInit(program: Command, session: CliSession): void {
  program
    .command('init')
    .description('Create a working configuration and print the next steps.')
    .option('--dir <directory>', 'directory for the configuration (default: ~/.config/ductile)')
    .option('--api <address>', 'address of the HTTP API (default: 127.0.0.1:8080)')
    .option('--no-api', 'disable the HTTP API')
    .option('--force', 'replace an existing config.yaml')
    .option('-y, --yes', 'use the defaults without asking')
    .option('--dry-run', 'show the plan and change nothing')
    .option('--apply', APPLY)
    .addHelpText(
      'after',
      '\nExamples:\n  $ ductile init\n  $ ductile init --dir ./automation --yes',
    )
    .action(async (_, command: Command) => {
      const { init } = await import('./init.ts');
      await init(session, command.optsWithGlobals());
    });
}

function addDemo(program: Command, session: CliSession): void {
  program
    .command('demo')
    .description('Run a small automation in a temporary directory.')
    .option('--dir <directory>', 'directory to use and keep (default: a temporary one)')
    .option('--rounds <count>', 'stop after this many rounds (default: run until Ctrl-C)', toCount)
    .addHelpText('after', '\nExamples:\n  $ ductile demo --rounds 3')
    .action(async ({ dir, rounds }: { dir?: string; rounds?: number }) => {
      const print = (line: string): void => void session.io.stdout.write(`${line}\n`);
      session.exitCode = await session.host.demo({ directory: dir, rounds, print });
    });
}

function addLogs(program: Command, session: CliSession): void {
  program
    .command('logs')
    .description('Show the output of plugins, or the log of the service.')
    .argument('[plugin]', 'only attempts of this plugin')
    .option('-f, --follow', 'print new lines until Ctrl-C')
    .option(
      '-n, --limit <count>',
      'number of latest entries to show first (default: 20, or all with --since)',
      toCount,
    )
    .option('--since <when>', 'start at a time, or a duration ago, such as 15m')
    .option('-p, --plugin <name>', 'only attempts of this plugin')
    .option('-j, --job <id>', 'only attempts of this job')
    .option('--correlation <id>', 'only attempts of the chain that this job or signal started')
    .option('--core', 'show the log of the service instead of plugin output')
    .option('--level <level>', 'with --core: only this level and above (debug, info, warn, error)')
    .option('--component <name>', 'with --core: only this part of the service')
    .addHelpText(
      'after',
      `
Examples:
  $ ductile logs mail --follow
  $ ductile logs --job 0199a1b2
  $ ductile logs --since 15m
  $ ductile logs --core --level warn`,
    )
    .action(async (plugin: string | undefined, _, command: Command) => {
      const { tail } = await import('./logs.ts');
      const options = command.optsWithGlobals<CommonFlags & Record<string, unknown>>();
      session.exitCode = await tail(session, { ...options, ...(plugin && { plugin }) });
    });
}

function addExport(program: Command, session: CliSession): void {
  program.commands
    .find((command) => command.name() === 'signal')
    ?.command('export')
    .description('Write signals as JSON Lines, oldest first.')
    .option('-t, --type <type>', 'only signals of this type')
    .option('--source <source>', 'only signals from this source')
    .option('--subject <subject>', 'only signals about this: <type>/<id>, or an id alone')
    .option('--correlation-id <id>', 'only signals of this chain')
    .option('--from <time>', 'only signals from this time or later')
    .option('--to <time>', 'only signals before this time')
    .option('--cloudevents', 'write CloudEvents 1.0')
    .addHelpText(
      'after',
      '\nExamples:\n  $ ductile signal export > all.jsonl\n  $ ductile signal export --type job.dead --cloudevents',
    )
    .action(async (_, command: Command) => {
      const { exportSignals } = await import('./export.ts');
      session.exitCode = await exportSignals(session, command.optsWithGlobals());
    });
}

function addUi(program: Command, session: CliSession): void {
  program
    .command('ui')
    .description('Print the address of the dashboard and how to get a token.')
    .addHelpText('after', '\nExamples:\n  $ ductile ui')
    .action(async (_, command: Command) => {
      const { showUi } = await import('./ui.ts');
      session.exitCode = await showUi(session, command.optsWithGlobals<CommonFlags>());
    });
}

function addDocs(program: Command, session: CliSession): void {
  program
    .command('docs')
    .description('Print the address of the documentation, or of one page.')
    .argument('[page]', 'page, such as quickstart, guides/webhooks or errors#BUSY')
    .addHelpText('after', '\nExamples:\n  $ ductile docs\n  $ ductile docs errors#BUSY')
    .action(async (page: string | undefined, _, command: Command) => {
      const { showDocs } = await import('./ui.ts');
      session.exitCode = await showDocs(session, page, command.optsWithGlobals<CommonFlags>());
    });
}

function addWatch(program: Command, session: CliSession): void {
  program
    .command('watch')
    .description('Watch work live in the terminal, and act on it.')
    .option('--once', 'print it once and exit; --json does the same')
    .addHelpText(
      'after',
      '\nExamples:\n  $ ductile watch\n  $ ductile watch --once\n  $ ductile watch --url https://ductile.example',
    )
    .action(async (_, command: Command) => {
      session.exitCode = await session.host.watch(session, command.optsWithGlobals());
    });
}

function addApi(program: Command, session: CliSession): void {
  // The noun may have actions of its own; a path isn't one of them.
  const api = program.commands.find((command) => command.name() === 'api');
  (api ?? program.command('api'))
    .description('Send one request to the HTTP API and print the response.')
    .argument('<path>', 'path of the request, such as /jobs?limit=5')
    .option('-X, --method <method>', 'HTTP method (default: GET, or POST with fields or a body)')
    .option('-f, --field <key=value>', 'field for the query of a GET, or for a JSON body', collect)
    .option('-H, --header <name:value>', 'additional header', collect)
    .option('-b, --body <text>', 'request body; @FILE reads a file, @- reads standard input')
    .option('-i, --include', 'also print the status and the headers')
    .addHelpText(
      'after',
      '\nExamples:\n  $ ductile api /jobs -X GET -f limit=5\n  $ ductile api /plugin/echo/poll -b \'{"payload":{}}\'',
    )
    .action(async (path: string, _, command: Command) => {
      const { callApi } = await import('./api.ts');
      const options = command.optsWithGlobals<CommonFlags & Record<string, unknown>>();
      session.exitCode = await callApi(session, path, options);
    });
}

function addMcp(program: Command, session: CliSession): void {
  const { host, io } = session;
  program
    .command('mcp')
    .description('Run an MCP server on standard input and output, for AI agents.')
    .option('--readonly', 'offer only tools that change nothing')
    .option('--only <nouns>', 'offer only tools for these nouns, such as job,plugin,schedule')
    .addHelpText(
      'after',
      '\nExamples:\n  $ claude mcp add ductile -- ductile mcp --readonly' +
        '\n  $ ductile mcp --url https://ductile.example --only job,plugin',
    )
    .action(async (given: { readonly?: boolean; only?: string }, command: Command) => {
      const options = command.optsWithGlobals<CommonFlags>();
      await host.mcp({
        config: options.config,
        isReadOnly: given.readonly === true,
        nouns: given.only?.split(','),
        findTarget: () => findTarget(session, options),
        isHere: options.url === undefined && options.token === undefined,
        interruption: io.interruption(),
      });
    });
}

function addSkills(program: Command, session: CliSession): void {
  program
    .command('skills')
    .description('Documentation that teaches AI agents to use Ductile.')
    .command('export')
    .description(
      'Write an agent skill as Markdown pages: one for each noun, and one for the plugins.',
    )
    .option('--dir <directory>', 'directory in which ductile/SKILL.md is written', 'skills')
    .option('--dry-run', 'list the files without writing them')
    .option('--apply', APPLY)
    .option('--stdout', 'print the pages instead of writing files')
    .addHelpText(
      'after',
      '\nExamples:\n  $ ductile skills export --dir ~/.claude/skills\n  $ ductile skills export --stdout',
    )
    .action(async (given: SkillsFlags, command: Command) => {
      const { exportSkills } = await import('./skills.ts');
      await exportSkills(session, { ...command.optsWithGlobals<CommonFlags>(), ...given });
    });
}

interface SkillsFlags extends ModeFlags {
  readonly dir: string;
  readonly stdout?: boolean;
}

function addCompletion(program: Command, session: CliSession): void {
  program
    .command('completion')
    .description('Print the completion script for a shell.')
    .argument('<shell>', 'bash, zsh or fish')
    .addHelpText('after', '\nExamples:\n  $ source <(ductile completion bash)')
    .action(async (shell: string) => {
      const { completionScript } = await import('./completion.ts');
      session.io.stdout.write(completionScript(shell));
    });
}

/** Reads the flags of a command that works on this machine only. */
function readLocalFlags(command: Command): CommonFlags {
  const options = command.optsWithGlobals<CommonFlags>();
  refuseRemote(command.name(), options);
  return options;
}

/** Returns whether the ledger of a tenant could not be migrated. */
function hasFailedTenant({ tenants }: JsonOutput): boolean {
  return (
    Array.isArray(tenants) && tenants.some((tenant) => isObject(tenant) && tenant['error'] !== null)
  );
}

function report(session: CliSession, options: CommonFlags, output: JsonOutput): void {
  const printer = makePrinter(session.io, options);
  if (options.json === true) printJson(session, options, output);
  else if (output['dry_run'] === true) showPlan(output, printer);
  else showTransfer(output, printer);
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

function toCount(text: string): number {
  const count = Number(text);
  if (Number.isSafeInteger(count) && count > 0) return count;
  throw new InvalidArgumentError('It must be a whole number above 0.');
}
