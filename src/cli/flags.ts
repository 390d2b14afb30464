import { resolve } from 'node:path';
import { Option, type Command } from 'commander';
import { DuctileError, messageOf } from '../base/errors.ts';
import { parseStrictJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { suggest } from '../base/text.ts';
import { decodeText, type FieldSchema } from '../operation/request.ts';
import type { CommandDefinition } from './commands.ts';
import type { CliIo } from './host.ts';
import { readSource, readSecret } from './input.ts';

/** Field of an operation's input on the command line. */
interface Flag {
  readonly field: string;
  readonly schema: FieldSchema;
  /** Commander's name of the value; undefined for a positional. */
  readonly attribute: string | undefined;
  /** Commander's name of the flag that reads the value from a file. */
  readonly fileAttribute: string | undefined;
}

/** Reads the given values in the types of the operation's input. */
type ReadInput = (
  positionals: readonly unknown[],
  options: Readonly<Record<string, unknown>>,
  io: CliIo,
) => Promise<Record<string, unknown>>;

/** Adds the arguments and flags of an operation to a command. */
export function addFlags(
  command: Command,
  surface: CommandDefinition,
  positionals: readonly string[],
): ReadInput {
  const shown = surface.fields.filter(({ field }) => !surface.secrets.includes(field));
  const flags = shown.map(({ field, ...schema }): Flag => {
    if (!positionals.includes(field)) return addOptions(command, field, schema, surface);
    return { field, schema, attribute: undefined, fileAttribute: undefined };
  });
  const secrets = surface.secrets.map((field) => addSecret(command, field, surface));
  for (const field of positionals) {
    const schema = flags.find((flag) => flag.field === field)?.schema;
    const isLast = surface.joins === true && field === positionals.at(-1);
    const name = `${field.replaceAll('_', '-')}${isLast ? '...' : ''}`;
    command.argument(
      schema?.required === true ? `<${name}>` : `[${name}]`,
      schema?.description ?? '',
    );
  }

  return async (given, options, io) => {
    const input: Record<string, unknown> = {};
    for (const flag of flags) {
      const positional = given[positionals.indexOf(flag.field)];
      const isJoined = surface.joins === true && Array.isArray(positional);
      const written: unknown = isJoined ? positional.join(' ') : positional;
      const value = await readFlag(flag, written, options, io);
      checkPathChoice(flag, value, surface);
      const isPath = surface.paths?.includes(flag.field) === true && typeof value === 'string';
      if (value !== undefined) input[flag.field] = isPath ? resolve(io.cwd, value) : value;
    }
    // Don't wait for delayed work unless the user asks for it.
    const isForLater = input['delay'] !== undefined || input['run_at'] !== undefined;
    if (isForLater && command.getOptionValueSource('wait') === 'default') delete input['wait'];
    for (const { field, attribute } of secrets) {
      const isWanted = attribute === undefined || options[attribute] === true;
      if (isWanted) input[field] = await readSecret(field, io);
    }
    return input;
  };
}

/** Adds the flag for an optional secret, which is read only with that flag. */
function addSecret(
  command: Command,
  field: string,
  { fields }: CommandDefinition,
): { readonly field: string; readonly attribute: string | undefined } {
  const schema = fields.find((candidate) => candidate.field === field);
  if (schema === undefined || schema.required) return { field, attribute: undefined };
  const words = `${schema.description} (read from standard input, or from a hidden prompt)`;
  const option = new Option(`--${field.replaceAll('_', '-')}-stdin`, words);
  command.addOption(option);
  return { field, attribute: option.attributeName() };
}

function addOptions(
  command: Command,
  field: string,
  schema: FieldSchema,
  surface: CommandDefinition,
): Flag {
  const { types, description, choices, required } = schema;
  const name = field.replaceAll('_', '-');
  const isObject = types.includes('object');
  const isSwitch = types.every((type) => type === 'boolean');
  const value = placeholders[types.find((type) => type !== 'boolean') ?? ''] ?? 'text';
  const defaultFlags = isSwitch ? `--${name}` : `--${name} <${value}>`;
  const words = choices.length === 0 ? description : `${description} (${choices.join(', ')})`;
  const option = new Option(surface.flags?.[field] ?? defaultFlags, words).makeOptionMandatory(
    required,
  );
  if (types.includes('array')) option.argParser(collect);
  const defaultValue = surface.defaults?.[field];
  if (defaultValue !== undefined) option.default(defaultValue);
  command.addOption(option);
  if (types.includes('boolean') && !isSwitch) {
    command.addOption(new Option(`--no-${name}`, `disable --${name}`));
  }
  const file = new Option(`--${name}-file <file>`, 'read it from a file, or - for standard input');
  if (isObject) command.addOption(file);
  return {
    field,
    schema,
    attribute: option.attributeName(),
    fileAttribute: isObject ? file.attributeName() : undefined,
  };
}

const placeholders: Readonly<Record<string, string>> = {
  array: 'list',
  integer: 'number',
  object: 'json',
};

function collect(value: string, before: string | undefined): string {
  return before === undefined ? value : `${before},${value}`;
}

async function readFlag(
  { field, schema, attribute, fileAttribute }: Flag,
  positional: unknown,
  options: Readonly<Record<string, unknown>>,
  io: CliIo,
): Promise<unknown> {
  const file = fileAttribute === undefined ? undefined : options[fileAttribute];
  const given = attribute === undefined ? positional : options[attribute];
  if (typeof file === 'string' && given !== undefined) {
    throw refuse(field, `is given twice, as text and as a file`, 'Keep one of them.');
  }
  const written = typeof file === 'string' ? await readInput(field, file, io) : given;
  if (typeof written !== 'string') return written;
  const value = decodeText(schema, written);
  if (typeof value === 'string' && schema.types.includes('object')) throw noJson(field, written);
  return value;
}

function noJson(field: string, written: string): DuctileError {
  const parsed = parseStrictJson(written);
  const fault = parsed.ok ? 'is not an object' : parsed.fault;
  const hint = written.startsWith('@')
    ? `To read it from a file, use --${field.replaceAll('_', '-')}-file ${written.slice(1)}.`
    : 'Write an object, in quotes: \'{"name":"value"}\'.';
  return refuse(field, fault, hint);
}

/** Refuses a value in the request's path that isn't one of the choices: no route would match it. */
function checkPathChoice(
  { field, schema }: Flag,
  value: unknown,
  { http }: CommandDefinition,
): void {
  const { choices } = schema;
  const isInPath = http?.path.split('/').includes(`:${field}`) === true;
  if (!isInPath || typeof value !== 'string') return;
  if (choices.length === 0 || choices.includes(value)) return;
  throw refuse(
    field,
    `must be ${choices.join(', ')}, not ${value}`,
    suggest(value, choices, 'choices'),
  );
}

async function readInput(field: string, file: string, io: CliIo): Promise<string> {
  try {
    const content = await readSource(file, io);
    if (content.length <= limits.requestBytesMax) return content;
  } catch (thrown) {
    throw refuse(field, `cannot be read: ${messageOf(thrown)}`, 'Choose a file that can be read.');
  }
  const message = `${field} is larger than ${limits.requestBytesMax} bytes`;
  throw new DuctileError('PAYLOAD_TOO_LARGE', message, { place: file });
}

function refuse(field: string, message: string, hint: string): DuctileError {
  return new DuctileError('INPUT_INVALID', `${field} ${message}`, { place: field, hint });
}
