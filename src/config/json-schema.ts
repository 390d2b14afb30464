import * as z from 'zod';
import { formatByteSize, formatDuration } from '../base/quantity.ts';
import { isByteSize, isDuration } from '../base/fields.ts';
import { compact, isObject, type JsonObject } from '../base/json.ts';
import { EXTENSION_PREFIX } from './located.ts';
import { unwrap } from './issues.ts';
import { meanings } from './meanings.ts';
import { configSchema } from './schema.ts';
import { translations, type Translation } from './translate.ts';

type Schema = z.core.JSONSchema.BaseSchema;

/** Makes the JSON Schema of the configuration, for editors. */
export function makeJsonSchema(): JsonObject {
  const schema = z.toJSONSchema(configSchema, {
    io: 'output',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => correct(zodSchema, jsonSchema),
  });
  describe(schema, '');
  allowDeprecatedKeys(schema);
  // An included file may leave out keys that the whole configuration must have.
  delete schema.required;
  return {
    ...(schema as JsonObject),
    title: 'Configuration of Ductile',
    description: 'config.yaml and the files that it includes. An included file may have any part.',
  };
}

/** Lists the dotted keys of all leaves; `<name>` stands for any name, `[]` for any element. */
export function listKeys(schema: z.core.$ZodType = configSchema, path = ''): string[] {
  const type = unwrap(schema);
  if (type instanceof z.ZodObject && !ownPages.has(path)) {
    const shape = type.shape as Readonly<Record<string, z.core.$ZodType>>;
    return Object.entries(shape).flatMap(([key, inner]) =>
      key === 'database' ? [key] : listKeys(inner, path === '' ? key : `${path}.${key}`),
    );
  }
  if (path === 'plugins' && type instanceof z.ZodRecord) {
    return listKeys(type.valueType, `${path}.<name>`);
  }
  if (type instanceof z.ZodArray && unwrap(type.element) instanceof z.ZodObject) {
    const keys = listKeys(type.element, `${path}[]`);
    return keys[0] === `${path}[]` ? [path] : keys;
  }
  return [path];
}

/** Keys that have their own pages in the docs. */
const ownPages: ReadonlySet<string> = new Set([
  'plugins.<name>.schedules[]',
  'pipelines[].steps[]',
]);

/** Corrects schemas: a file holds the input of a check, not its output. */
function correct(zodSchema: z.core.$ZodType, schema: Schema): void {
  if (isDuration(zodSchema)) {
    const { default: defaultMs } = schema;
    schema.type = 'string';
    schema.pattern = String.raw`^(\d+(\.\d+)?(ms|[wdhms]))+$|\$\{`;
    if (typeof defaultMs === 'number') schema.default = formatDuration(defaultMs);
  } else if (isByteSize(zodSchema)) {
    const { default: defaultBytes } = schema;
    schema.type = ['string', 'integer'];
    schema.pattern = String.raw`^\d+(\.\d+)?\s*([kKmMgG]?([iI]?[bB])?)$|\$\{`;
    schema.minimum = 0;
    if (typeof defaultBytes === 'number') schema.default = formatByteSize(defaultBytes);
  } else if (zodSchema instanceof z.ZodObject) {
    const shape = zodSchema.shape as Readonly<Record<string, z.core.$ZodType>>;
    const required = Object.entries(shape).filter(([, { _zod }]) => _zod.optin === undefined);
    schema.required = required.map(([key]) => key);
    if (schema.required.length === 0) delete schema.required;
  } else if (zodSchema instanceof z.ZodNumber || zodSchema instanceof z.ZodBoolean) {
    allowVariable(schema);
  } else if (zodSchema instanceof z.ZodPipe && zodSchema.out instanceof z.ZodTransform) {
    if (zodSchema.in instanceof z.ZodString) schema.type = 'string';
  }
}

/** Allows `"${VAR}"` for a number and for a boolean. */
function allowVariable(schema: Schema): void {
  const { type, minimum, maximum } = schema;
  const limits = { ...compact({ minimum }), ...upTo(maximum) };
  for (const key of ['type', 'minimum', 'maximum'] as const) delete schema[key];
  schema.anyOf = [
    { ...compact({ type }), ...limits },
    { type: 'string', pattern: String.raw`^\$\{\w+(:-[^{}]*)?\}$` },
  ];
}

function upTo(maximum: number | undefined): { maximum?: number } {
  return maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum };
}

/** The key whose default depends on the machine. */
const MACHINE_DEFAULT = 'service.max_workers';

function describe(schema: unknown, path: string): void {
  if (!isObject(schema)) return;
  const meaning = meanings[path];
  if (meaning !== undefined) schema['description'] = meaning;
  if (path === MACHINE_DEFAULT) delete schema['default'];
  if (isObject(schema['properties'])) {
    for (const [key, inner] of Object.entries(schema['properties'])) {
      describe(inner, path === '' ? key : `${path}.${key}`);
    }
  }
  describe(schema['additionalProperties'], `${path}.<name>`);
  describe(schema['items'], `${path}[]`);
}

/** Marks the original project's spellings as deprecated, and allows keys that start with `x-`. */
function allowDeprecatedKeys(root: Record<string, unknown>): void {
  for (const translation of translations) allowAt(root, translation.from.split('.'), translation);
  allowExtensions(root);
}

function allowAt(
  schema: unknown,
  [word = '', ...rest]: readonly string[],
  translation: Translation,
): void {
  if (!isObject(schema)) return;
  if (word === '*') {
    allowAt(schema['items'] ?? schema['additionalProperties'], rest, translation);
    return;
  }
  const properties = schema['properties'];
  if (!isObject(properties)) return;
  const known = properties[word];
  if (rest.length > 0) {
    // `anyOf` lists the current form first.
    const [first] = isObject(known) && Array.isArray(known['anyOf']) ? known['anyOf'] : [known];
    allowAt(first, rest, translation);
  } else if (known === undefined) {
    properties[word] = { deprecated: true, description: translation.hint };
  } else if (isObject(known) && known['deprecated'] !== true) {
    const list = { type: 'array', deprecated: true, description: translation.hint };
    properties[word] = { anyOf: [known, list] };
  }
}

/** Applies only where other keys are refused; elsewhere any key is accepted. */
function allowExtensions(schema: unknown): void {
  if (Array.isArray(schema)) {
    for (const inner of schema) allowExtensions(inner);
    return;
  }
  if (!isObject(schema)) return;
  for (const inner of Object.values(schema)) allowExtensions(inner);
  if (schema['additionalProperties'] !== false) return;
  schema['patternProperties'] = { [`^${EXTENSION_PREFIX}`]: {} };
}
