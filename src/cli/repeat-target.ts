import { quoteShell } from '../base/text.ts';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';

/**
 * Repeats the `--config` or `--url` of a command line in the commands that a result suggests, so that
 * a copied command means the same installation.
 */
export function repeatTarget<T>(output: T, argv: readonly string[]): T {
  const target = findTargetWords(argv);
  return target === '' ? output : (repeatIn(output, target) as T);
}

/** Does the same with commands in backticks in a sentence of the command line itself. */
export function repeatTargetInText(text: string, argv: readonly string[]): string {
  return repeatInText(text, findTargetWords(argv));
}

/** Does the same with the hint of an error. */
export function repeatTargetInError(error: DuctileError, argv: readonly string[]): DuctileError {
  const target = findTargetWords(argv);
  const { code, message, place, details, cause } = error;
  const hint = repeatInText(error.hint, target);
  if (hint === error.hint) return error;
  return new DuctileError(code, message, {
    hint,
    cause,
    place,
    details,
  });
}

/** Returns the target flags as given, quoted for a shell; empty without them. */
function findTargetWords(argv: readonly string[]): string {
  const found = argv.flatMap((word, at) => {
    const [, flag, joined] = /^(--config|--url)(?:=(.*))?$/s.exec(word) ?? [];
    const value = joined ?? argv[at + 1];
    return flag === undefined || value === undefined ? [] : [`${flag} ${quoteShell(value)}`];
  });
  return found.at(-1) ?? '';
}

/** Keys of texts with commands in backticks. Texts under other keys stay as they are. */
const advice: ReadonlySet<string> = new Set(['fix', 'hint', 'note', 'warning']);

/** Keys of lists of commands. */
const commandLists: ReadonlySet<string> = new Set(['commands', 'next']);

function repeatIn(value: unknown, target: string): unknown {
  if (Array.isArray(value)) return value.map((entry) => repeatIn(entry, target));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => {
      if (commandLists.has(key) && Array.isArray(entry)) {
        return [key, entry.map((one) => (typeof one === 'string' ? addTarget(one, target) : one))];
      }
      const isAdvice = advice.has(key) && typeof entry === 'string';
      return [key, isAdvice ? repeatInText(entry, target) : repeatIn(entry, target)];
    }),
  );
}

function repeatInText(text: string, target: string): string {
  if (target === '') return text;
  return text.replaceAll(/`(ductile [^`]+)`/g, (_, command: string) => {
    return `\`${addTarget(command, target)}\``;
  });
}

/** Commands about files of this machine refuse `--url`, and `init` makes a new configuration. */
function addTarget(line: string, target: string): string {
  const parts = line.split(' && ').map((part) => {
    const isOwn = part.startsWith('ductile ') && !/ --(config|url)\b/.test(part);
    const isOnFiles = /^ductile (config|init|demo|plugin (create|test))\b/.test(part);
    const isWanted = isOwn && !(isOnFiles && target.startsWith('--url'));
    return isWanted && !/^ductile (init|demo)\b/.test(part) ? `${part} ${target}` : part;
  });
  return parts.join(' && ');
}
