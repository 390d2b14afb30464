import { compact } from '../base/json.ts';
import {
  isOffered,
  type CliSurface,
  type Effect,
  type HttpSurface,
  type Operation,
} from '../operation/define.ts';
import { findingGuides } from '../insight/doctor.operations.ts';
import { operations } from '../operation/all.ts';
import type { FieldSchema } from '../operation/request.ts';
import { describeResult, type ResultShape, describeInput } from '../operation/schema.ts';

/** Description of an operation for the command line, as plain data. */
export interface CommandDefinition extends Omit<CliSurface, 'exitCode' | 'command' | 'variants'> {
  /** The operation's name. Variants of a command share it. */
  readonly name: string;
  /** The first word of the documented command. */
  readonly noun: string;
  /** The second word of the documented command. */
  readonly action: string;
  /** The flag of another command that selects this one, such as `active` in `config show --active`. */
  readonly flag?: string;
  /** The key of the text view (default: the operation's name). */
  readonly view?: string;
  /** Spellings that work and aren't documented. */
  readonly olderSpellings: readonly string[];
  readonly summary: string;
  readonly effect: Effect;
  readonly fields: readonly (FieldSchema & { readonly field: string })[];
  /** Fields that are read from standard input, or typed without being shown. */
  readonly secrets: readonly string[];
  readonly needs: Operation['needs'];
  /** HTTP request for it; undefined if it has no route. */
  readonly http: Pick<HttpSurface, 'method' | 'path' | 'body'> | undefined;
  /** Fields of a result; a response without any of them isn't from Ductile. */
  readonly answers: readonly string[];
  readonly result: ResultShape;
  /** The operation decides the exit code. */
  readonly isJudged: boolean;
}

/**
 * The build replaces this module with the value of the list, so that the command line starts
 * without the operations and their schemas.
 */
export const commands: readonly CommandDefinition[] = operations.flatMap((operation) =>
  isOffered(operation.cli) ? describe(operation, operation.cli) : [],
);

function describe(operation: Operation, cli: CliSurface): CommandDefinition[] {
  const { name, summary, effect, needs, http, output } = operation;
  const ownWords = name.replace('.', ' ');
  const { exitCode, command = ownWords, olderSpellings = [], variants = [], ...surface } = cli;
  const short = shortFormOf(name);
  const definition: CommandDefinition = {
    ...(short === undefined ? {} : { alias: { name: short, ...positionalsOf(cli) } }),
    ...surface,
    ...parseCommand(command),
    name,
    summary,
    olderSpellings: [...(command === ownWords ? [] : [ownWords]), ...olderSpellings],
    effect,
    needs,
    secrets: operation.secrets ?? [],
    // Every command has `--fields`, which applies to the printed result.
    fields: [...describeInput(operation)]
      .filter(([field]) => field !== 'fields')
      .map(([field, schema]) => ({ field, ...schema })),
    http: isOffered(http) ? { method: http.method, path: http.path, ...bodyOf(http) } : undefined,
    answers: Object.keys(output.shape),
    result: describeResult(operation),
    isJudged: exitCode !== undefined,
  };
  const { alias: _, ...shared } = definition;
  return [
    definition,
    ...variants.map(({ command: words, ...own }) => ({
      ...shared,
      olderSpellings: [],
      ...parseCommand(words),
      ...own,
      view: words.replace(' ', '.'),
    })),
  ];
}

function parseCommand(command: string): Pick<CommandDefinition, 'noun' | 'action' | 'flag'> {
  const [noun = '', action = '', flag] = command.split(' ');
  return { noun, action, ...compact({ flag: flag?.slice('--'.length) }) };
}

/** Short forms of the most common commands, besides those that operations define. */
function shortFormOf(name: string): string | undefined {
  if (name === 'system.doctor') return 'doctor';
  return name === 'system.reload' ? 'reload' : undefined;
}

function positionalsOf({ positionals }: CliSurface): Pick<CliSurface, 'positionals'> {
  return compact({ positionals });
}

function bodyOf({ body }: HttpSurface): Pick<HttpSurface, 'body'> {
  return compact({ body });
}

/** The kinds of findings for the on-call page. The build computes them, as it does the commands. */
export const onCallFindings = findingGuides.map(({ kind, condition, command }) => ({
  kind,
  condition,
  command,
}));
