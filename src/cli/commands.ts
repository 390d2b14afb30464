import { isOffered } from '../operation/define.ts';
import type { CliSurface, Effect, HttpSurface, Operation } from '../operation/define.ts';
import { operations } from '../operation/all.ts';
import type { FieldSchema } from '../operation/request.ts';
import { describeResult, type ResultShape } from '../operation/result/result-shape.ts';
import { describeInput } from '../operation/request-codec.ts';

/** What the command line knows of an operation, as plain data. */
export interface CommandDefinition extends Omit<CliSurface, 'exitCode'> {
  /** The operation's: `<noun>.<action>` */
  readonly name: string;
  readonly noun: string;
  readonly action: string;
  readonly summary: string;
  readonly effect: Effect;
  readonly fields: readonly (FieldSchema & { readonly field: string })[];
  /** Fields that are read from standard input, or asked for without being shown. */
  readonly secrets: readonly string[];
  readonly needs: Operation['needs'];
  /** How a server is asked for it; undefined when it has no route. */
  readonly http: Pick<HttpSurface, 'method' | 'path' | 'body'> | undefined;
  /** What answers have; one with nothing of it does not come from Ductile. */
  readonly answers: readonly string[];
  readonly result: ResultShape;
  /** The operation itself decides on the exit code. */
  readonly isJudged: boolean;
}

/**
 * The build puts the value of this list in the place of this module, so that a command line starts
 * without the operations, their schemas and what those need.
 */
export const commands: readonly CommandDefinition[] = operations.flatMap((operation) =>
  isOffered(operation.cli) ? [describe(operation, operation.cli)] : [],
);

function describe(operation: Operation, cli: CliSurface): CommandDefinition {
  const { name, summary, effect, needs, http, output } = operation;
  const [noun = '', action = ''] = name.split('.');
  const { exitCode, ...surface } = cli;
  const short = shortFormOf(name);
  return {
    ...(short === undefined ? {} : { alias: { name: short, ...positionalsOf(cli) } }),
    ...surface,
    name,
    noun,
    action,
    summary,
    effect,
    needs,
    secrets: operation.secrets ?? [],
    // Every command has `--fields`, which is applied to what is printed.
    fields: [...describeInput(operation)]
      .filter(([field]) => field !== 'fields')
      .map(([field, schema]) => ({ field, ...schema })),
    http: isOffered(http) ? { method: http.method, path: http.path, ...bodyOf(http) } : undefined,
    answers: Object.keys(output.shape),
    result: describeResult(operation),
    isJudged: exitCode !== undefined,
  };
}

/** What people type most, beside the spellings that the operations ask for themselves. */
function shortFormOf(name: string): string | undefined {
  if (name === 'system.doctor') return 'doctor';
  return name === 'system.reload' ? 'reload' : undefined;
}

function positionalsOf({ positionals }: CliSurface): Pick<CliSurface, 'positionals'> {
  return positionals === undefined ? {} : { positionals };
}

function bodyOf({ body }: HttpSurface): Pick<HttpSurface, 'body'> {
  return body === undefined ? {} : { body };
}
