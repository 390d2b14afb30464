import type { Command, CommanderError } from 'commander';
import { DuctileError } from '../base/errors.ts';
import { nearest, suggest } from '../config/nearest.ts';
import { commands } from './commands.ts';

/** Commander's own complaint in the words of the catalogue, after what is behind it. */
export function usageError(
  { code, message }: CommanderError,
  argv: readonly string[],
  program: Command,
): DuctileError {
  const behind = noSuchAction(code, argv) ?? noSuchOption(code, argv, program);
  if (behind !== undefined) return behind;
  const [said = '', guess] = message.replace(/^error: /, '').split('\n');
  const asked = ['ductile', ...commandWords(argv), '--help'].join(' ');
  const hint = guess?.replaceAll(/[()]/g, '') ?? `See \`${asked}\`.`;
  // What was given too much may be a secret.
  return new DuctileError('INPUT_INVALID', said.replace(/(but got \d+): .*$/, '$1'), { hint });
}

/** A word that is no action is given to the usual one, which then complains of what it does not take. */
function noSuchAction(code: string, argv: readonly string[]): DuctileError | undefined {
  if (!['commander.excessArguments', 'commander.unknownOption'].includes(code)) return undefined;
  const [noun = '', word = ''] = argv.slice(nounAt(argv));
  const actions = commands.filter((definition) => definition.noun === noun);
  const names = actions.flatMap(({ action, also = [] }) => [action, ...also]);
  if (word === '' || word.startsWith('-') || names.includes(word)) return undefined;
  // The usual one may take a word of any kind.
  const isOpen =
    commands.some(({ alias }) => alias?.name === noun) ||
    actions.some(({ isDefault, positionals = [] }) => isDefault === true && positionals.length > 0);
  if (isOpen && nearest(word, names) === undefined) return undefined;
  return new DuctileError('INPUT_INVALID', `unknown command '${word}'`, {
    hint: suggest(word, names, `actions of ${noun}`),
  });
}

/** One that is missing may be there under a name that is written wrongly. */
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
    const meant = known.includes(flag) ? undefined : nearest(flag, known);
    if (meant === undefined) continue;
    const hint = `Did you mean ${meant}?`;
    return new DuctileError('INPUT_INVALID', `unknown option '${flag}'`, { hint });
  }
  return undefined;
}

/** The noun and the action among the words, as far as they are known; options may stand before them. */
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
