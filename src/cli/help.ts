import type { Command, Help } from 'commander';
import { commands, type CommandDefinition } from './commands.ts';

const nouns: Readonly<Record<string, string>> = {
  analytics: 'Statistics about jobs: counts, durations and failures.',
  breaker: 'Circuit breakers: which commands keep failing, and their reset.',
  config: 'Check, lock, read and change the configuration.',
  credential: 'Secrets for plugins, stored encrypted.',
  directive: 'Requested changes, with their requester and outcome.',
  incident: 'Problems that Ductile has detected, open and resolved.',
  installation: 'Installed packages, and what each of them provides.',
  job: 'Single executions of a plugin command, with their results.',
  jobs: 'Cancel or retry many jobs at once.',
  package: 'Bundles of settings, schedules, routes and pipelines.',
  pipeline: 'Workflows: steps that run in sequence or in parallel.',
  plugin: 'The programs that jobs run.',
  queue: 'Running and waiting jobs.',
  run: 'Executions of pipelines, with their steps and outcome.',
  schedule: 'Times at which plugin commands run.',
  signal: 'Events from plugins, webhooks, callers and Ductile.',
  system: 'The service: start, status, checks and backups.',
  tenant: 'Isolated teams or customers, each with its own database.',
  token: 'Tokens for the API and the dashboard.',
  why: 'Explain why something ran, waits or failed, and what to do.',
  webhook: 'HTTP endpoints that start work when another system calls them.',
};

/** Describes a noun; a noun without a description is described by its name. */
export function describeNoun(noun: string): string {
  return nouns[noun] ?? `Commands for ${noun}.`;
}

/** Titles of the groups in `ductile --help`, with the nouns and commands of each. */
export const commandGroups: Readonly<Record<string, readonly string[]>> = {
  Everyday: splitWords(
    'init status logs why doctor job run plugin pipeline schedule queue signal watch ui docs demo',
  ),
  'Set up': splitWords('config credential token webhook package installation tenant'),
  Operate: splitWords('system reload breaker incident jobs directive analytics'),
  Develop: splitWords('prove api mcp skills completion version help'),
};

/** Titles of the groups in the help of nouns with many actions. */
export const actionGroups: Readonly<
  Record<string, Readonly<Record<string, readonly string[]>> | undefined>
> = {
  breaker: { Commands: splitWords('list show reset') },
  config: {
    Read: splitWords('show get diff history schema'),
    Change: splitWords('init set unset check lock'),
    'Back up': splitWords('backup restore'),
  },
  plugin: {
    Use: splitWords('list show run facts'),
    Operate: splitWords('health init enable disable'),
    Develop: splitWords('create test openapi'),
  },
  system: {
    Service: splitWords('start status pause resume reload logs metrics openapi'),
    Check: splitWords('doctor check selfcheck prove'),
    Database: splitWords('backup restore export import migrate prune'),
  },
  webhook: {
    Webhooks: splitWords('list show create edit delete rotate endpoints'),
    Deliveries: splitWords('deliveries delivery replay test'),
  },
};

/** The last line of `ductile --help`. */
const documentationLine = 'Documentation: ductile docs';

function splitWords(text: string): string[] {
  return text.split(' ');
}

/** Name and description of a command in a list. */
interface ListedCommand {
  readonly name: string;
  readonly description: string;
}

/** Renders `ductile --help`: the commands in groups, then the flags of every command. */
export function renderProgramHelp(program: Command, helper: Help): string {
  const groups = Map.groupBy(listProgramCommands(program), ({ name }) => findGroup(name));
  const flags = helper.visibleOptions(program).map((option) => ({
    name: helper.optionTerm(option),
    description: helper.optionDescription(option),
  }));
  const parts = [
    `Usage: ${helper.commandUsage(program)}`,
    helper.commandDescription(program),
    ...[...groups].map(([title, listed]) => renderList(title, listed, helper)),
    renderList('Options', flags, helper),
    renderList('Short forms', listShortForms(), helper),
    `Show the help of a command with ductile job --help.\n${documentationLine}`,
  ];
  return `${parts.join('\n\n')}\n`;
}

/** Lists the documented commands and nouns in the order of their groups; others come last. */
export function listProgramCommands(program: Command): readonly ListedCommand[] {
  const visible = new Map(
    program
      .createHelp()
      .visibleCommands(program)
      .map((command) => [command.name(), command.description()]),
  );
  const shortForms = new Map(commands.map(({ alias, summary }) => [alias?.name, summary]));
  const grouped = Object.values(commandGroups).flat();
  return [...new Set([...grouped, ...visible.keys()])].flatMap((name) => {
    const description = visible.get(name) ?? shortForms.get(name);
    return description === undefined ? [] : [{ name, description }];
  });
}

function findGroup(name: string): string {
  const titles = Object.keys(commandGroups);
  return titles.find((title) => commandGroups[title]?.includes(name)) ?? titles.at(-1) ?? '';
}

function listShortForms(): readonly ListedCommand[] {
  return commands.flatMap(({ noun, action, alias }) =>
    alias === undefined ? [] : [{ name: alias.name, description: `${noun} ${action}` }],
  );
}

function renderList(title: string, listed: readonly ListedCommand[], helper: Help): string {
  const width = Math.max(...listed.map(({ name }) => name.length));
  const lines = listed.map(({ name, description }) =>
    helper.formatItem(name, width, description, helper),
  );
  return [`${title}:`, ...lines].join('\n');
}

/** Adds the commands that check one part to the help of a command. */
export function addPartsHelp(command: Command, { parts = [] }: CommandDefinition): void {
  if (parts.length === 0) return;
  const render = (): string =>
    `\n${renderList('Checks of one part', listParts(parts), command.createHelp())}`;
  command.addHelpText('after', render);
}

/** Describes the commands with these words. */
export function listParts(parts: readonly string[]): readonly ListedCommand[] {
  return parts.map((name) => {
    const definition = commands.find(({ noun, action }) => name === `${noun} ${action}`);
    return { name, description: definition?.summary ?? '' };
  });
}

/** Returns the words of the documented command after `ductile`. */
export function nameWords({ noun, action, flag }: CommandDefinition): string[] {
  return [noun, action, ...(flag === undefined ? [] : [`--${flag}`])];
}

/** Sorts the actions of a noun into the groups of its help, if it has groups. */
export function groupActions(parent: Command): void {
  const groups = Object.entries(actionGroups[parent.name()] ?? {});
  const last = groups.at(-1)?.[0];
  if (last === undefined) return;
  const names = groups.flatMap(([, actions]) => actions);
  const positionOf = (command: Command): number => {
    const index = names.indexOf(command.name());
    return index === -1 ? names.length : index;
  };
  (parent.commands as Command[]).sort((a, b) => positionOf(a) - positionOf(b));
  for (const command of parent.commands) {
    const title = groups.find(([, actions]) => actions.includes(command.name()))?.[0] ?? last;
    command.helpGroup(`${title}:`);
  }
  // The help command of Commander goes to the last group.
  parent.commandsGroup(`${last}:`).helpCommand(true);
}
