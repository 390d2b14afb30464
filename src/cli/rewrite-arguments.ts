import type { Session } from './host.ts';
import {
  commandAliases,
  commandFlagAliases,
  flagAliases,
  valueFlags,
  type CommandAlias,
  type ParsedArguments,
} from './original-commands.ts';

/**
 * The documented form of a command line in the words of the original Ductile. One line on standard
 * error says what was meant; values aren't repeated there, because one of them may be a token.
 */
export async function rewriteArguments(
  argv: readonly string[],
  session: Session,
): Promise<readonly string[]> {
  const notes: string[] = [];
  const renamed = renameFlags(argv, notes);
  const { words } = parseArguments(renamed);
  const alias = commandAliases.find(({ from }) => startsWith(words, from.split(' ')));
  if (alias !== undefined) notes.unshift(`\`${alias.from}\` is \`${alias.to}\``);
  if (notes.length > 0) session.io.stderr.write(`note: in Ductile, ${notes.join(', ')}\n`);
  return alias === undefined ? renamed : rewriteCommand(renamed, alias, session);
}

async function rewriteCommand(
  argv: readonly string[],
  { from, to, rewrite }: CommandAlias,
  session: Session,
): Promise<readonly string[]> {
  const said = from.split(' ');
  if (rewrite === undefined) return [...to.split(' '), ...withoutWords(argv, said)];
  const { words, flags } = parseArguments(argv);
  return rewrite({ words: words.slice(said.length), flags }, session);
}

function renameFlags(argv: readonly string[], notes: string[]): string[] {
  const { words } = parseArguments(argv);
  const command = words.slice(0, 2).join(' ');
  const aliases = { ...flagAliases, ...commandFlagAliases[command] };
  const isConfig = words[0] === 'config';
  const renamed: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const argument = argv[at] ?? '';
    const [, name = '', value] = /^--([a-z-]+)(=.*)?$/s.exec(argument) ?? [];
    if (argument === '--') return [...renamed, ...argv.slice(at)];
    const ours = Object.hasOwn(aliases, name) ? aliases[name as keyof typeof aliases] : undefined;
    if (ours !== undefined) {
      notes.push(`\`--${name}\` is \`--${ours}\``);
      renamed.push(`--${ours}${value ?? ''}`);
    } else if (name === 'format' && isConfig) {
      const format = value?.slice(1) ?? argv[(at += 1)];
      notes.push('`--format json` is `--json`');
      if (format === 'json') renamed.push('--json');
    } else renamed.push(argument);
  }
  return renamed;
}

function parseArguments(argv: readonly string[]): ParsedArguments {
  const words: string[] = [];
  const flags = new Map<string, string | true>();
  for (let at = 0; at < argv.length; at += 1) {
    const argument = argv[at] ?? '';
    const [, name, value] = /^--([a-z-]+)(?:=(.*))?$/s.exec(argument) ?? [];
    if (name === undefined) {
      if (!argument.startsWith('-') || argument === '-') words.push(argument);
      else flags.set(argument, true);
    } else if (value !== undefined) flags.set(name, value);
    else if (valueFlags.has(name)) flags.set(name, argv[(at += 1)] ?? '');
    else flags.set(name, true);
  }
  return { words, flags };
}

function startsWith(words: readonly string[], start: readonly string[]): boolean {
  return start.every((word, index) => words[index] === word);
}

/** Takes the words of a command out; flags with their values stay. */
function withoutWords(argv: readonly string[], words: readonly string[]): string[] {
  const left = [...words];
  const kept: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const argument = argv[at] ?? '';
    const isFlag = argument.startsWith('--');
    if (!isFlag && argument === left[0]) left.shift();
    else kept.push(argument);
    if (isFlag && valueFlags.has(argument.slice(2)) && at + 1 < argv.length) {
      kept.push(argv[(at += 1)] ?? '');
    }
  }
  return kept;
}
