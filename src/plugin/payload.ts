import { join } from 'node:path';
import type { ErrorObject, ValidateFunction } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { DuctileError, messageOf } from '../base/errors.ts';
import { isObject, replaceExact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { runWithinMs } from '../base/timer.ts';
import { keyText } from '../config/document.ts';
import { makeProblem, type Problem } from '../config/problem.ts';
import type { Plugin } from './catalog.ts';
import { MANIFEST_FILE } from './manifest.ts';

/** Refuses a payload that the command's `input_schema` doesn't allow, with the location. */
export async function checkPayload(
  plugin: Plugin,
  command: string,
  payload: JsonObject,
): Promise<void> {
  const schema = plugin.manifest.commands[command]?.inputSchema;
  if (schema === undefined) return;
  const check = await checkOf(plugin, command, schema);
  const fault = check(payload);
  if (fault === undefined) return;
  const place = placeOf('payload', fault);
  throw new DuctileError('INPUT_INVALID', `${place} ${describeFault(fault)}`, {
    place,
    hint: `Run \`ductile plugin show ${plugin.name} --verbose\` to see the input of ${command}.`,
  });
}

/**
 * Describes why a schema doesn't allow a value, with its location under `root`. Returns undefined
 * if it does.
 */
export async function findMismatch(
  what: string,
  schema: Readonly<JsonObject>,
  value: JsonObject,
  root: string,
): Promise<{ readonly place: string; readonly message: string } | undefined> {
  const fault = (await compile(what, schema))(value);
  return fault === undefined
    ? undefined
    : { place: placeOf(root, fault), message: describeFault(fault) };
}

/**
 * Checks the schemas of plugins. Payloads of commands with a broken schema are refused. Loading a
 * catalog skips this, because most commands need no validator.
 */
export async function checkSchemas(plugins: Iterable<Plugin>): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const plugin of plugins) {
    for (const [command, { inputSchema }] of Object.entries(plugin.manifest.commands)) {
      if (inputSchema === undefined) continue;
      const fault = await checkOf(plugin, command, inputSchema).then(
        () => undefined,
        (thrown: unknown) => messageOf(thrown),
      );
      if (fault === undefined) continue;
      const key = keyText(['commands', command, 'input_schema']);
      const hint = `No payload of ${plugin.name} ${command} is accepted until the schema is fixed.`;
      problems.push(makeProblem(join(plugin.directory, MANIFEST_FILE), key, fault, hint));
    }
  }
  return problems;
}

type Check = (payload: JsonObject) => ErrorObject | undefined;

/** Keyed by plugin, so that a reload compiles new schemas and forgets old ones. */
const checks = new WeakMap<Plugin, Map<string, Promise<Check>>>();

function checkOf(plugin: Plugin, command: string, schema: Readonly<JsonObject>): Promise<Check> {
  const known = checks.get(plugin) ?? new Map<string, Promise<Check>>();
  checks.set(plugin, known);
  const found = known.get(command);
  if (found !== undefined) return found;
  const made = compile(`input_schema of ${plugin.name} ${command}`, schema);
  known.set(command, made);
  // The failure may be a timeout on a busy machine, so the next payload tries again.
  made.catch(() => known.delete(command));
  return made;
}

async function compile(what: string, schema: Readonly<JsonObject>): Promise<Check> {
  // Loaded for the first payload: most commands don't need it.
  const { Ajv2020: Validator } = await import('ajv/dist/2020.js');
  const refuse = (why: string, cause?: unknown): DuctileError =>
    new DuctileError('PLUGIN_INVALID', `the ${what} ${why}`, { cause });
  if (JSON.stringify(schema).length > limits.inputSchemaCharsMax) {
    throw refuse(`has more than ${limits.inputSchemaCharsMax} characters`);
  }
  if (hasKey(schema, (key) => key === '$async'))
    throw refuse('uses $async, which is not supported');
  const { $schema: _dialect, ...rest } = schema;
  let validate: ValidateFunction;
  try {
    const dialect = dialectOf(Validator);
    validate = runWithinMs(limits.inputCompileMs, () => {
      void dialect.validateSchema(rest, true);
      return new Validator({ ...options, validateSchema: false }).compile(rest);
    });
  } catch (thrown) {
    throw refuse(`cannot be used: ${messageOf(thrown)}`, thrown);
  }
  // The validator only handles doubles. It checks the nearest one; the payload keeps the exact
  // number.
  const run = (payload: JsonObject): ErrorObject | undefined =>
    validate(replaceExact(payload, ({ text }) => Number(text)))
      ? undefined
      : chooseError(validate.errors ?? []);
  if (!hasKey(schema, (key) => costly.has(key))) return run;
  return (payload) => {
    try {
      return runWithinMs(limits.inputCheckMs, () => run(payload));
    } catch (thrown) {
      const message = `the payload cannot be checked against the ${what}`;
      const hint = `The check took longer than ${limits.inputCheckMs} ms. Simplify the patterns of the schema.`;
      throw new DuctileError('INPUT_INVALID', message, { place: 'payload', hint, cause: thrown });
    }
  };
}

const options = {
  strict: false,
  validateFormats: false,
  inlineRefs: false,
  unicodeRegExp: false,
  ownProperties: true,
  addUsedSchema: false,
  logger: false,
} as const;

let shared: Ajv2020 | undefined;

/**
 * Validates schemas themselves. Compiling it is slow, so it happens once, and without a time limit,
 * because an interrupted compilation stays broken.
 */
function dialectOf(Validator: typeof Ajv2020): Ajv2020 {
  if (shared === undefined) {
    const made = new Validator(options);
    void made.validateSchema({});
    shared = made;
  }
  return shared;
}

/** If several alternatives miss a field, naming only the first would mislead. */
function chooseError(errors: readonly ErrorObject[]): ErrorObject | undefined {
  const [first] = errors;
  const last = errors.at(-1);
  if (last?.keyword !== 'anyOf' && last?.keyword !== 'oneOf') return first;
  const missing = errors.slice(0, -1).map(({ keyword, params, instancePath }) => {
    const isHere = keyword === 'required' && instancePath === last.instancePath;
    return isHere ? (params as Record<string, unknown>)['missingProperty'] : undefined;
  });
  const isPlain = missing.length > 1 && missing.every((name) => typeof name === 'string');
  return isPlain ? { ...last, message: `needs ${missing.join(' or ')}` } : first;
}

/** Keywords with which the time of a check can grow faster than the payload. */
const costly: ReadonlySet<string> = new Set([
  'pattern',
  'patternProperties',
  'uniqueItems',
  '$ref',
  '$dynamicRef',
  '$recursiveRef',
]);

function hasKey(value: unknown, isMeant: (key: string) => boolean): boolean {
  if (Array.isArray(value)) return value.some((inner) => hasKey(inner, isMeant));
  if (!isObject(value)) return false;
  return Object.entries(value).some(([key, inner]) => isMeant(key) || hasKey(inner, isMeant));
}

function placeOf(root: string, { instancePath, keyword, params }: ErrorObject): string {
  const steps = instancePath
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const named: unknown =
    keyword === 'required'
      ? (params as Record<string, unknown>)['missingProperty']
      : (params as Record<string, unknown>)['additionalProperty'];
  const path = typeof named === 'string' ? [...steps, named] : steps;
  const place = path.map((step) => (/^\d+$/.test(step) ? `[${step}]` : `.${step}`)).join('');
  return `${root}${place}`.slice(0, limits.errorCharsMax);
}

function describeFault({ keyword, message, params }: ErrorObject): string {
  if (keyword === 'required') return 'is missing';
  if (keyword === 'additionalProperties' || keyword === 'unevaluatedProperties') {
    return 'is not a known field';
  }
  if (keyword === 'enum') {
    const allowed = (params as Record<string, unknown>)['allowedValues'];
    return `must be one of ${JSON.stringify(allowed)}`;
  }
  return message ?? 'does not match the schema';
}
