import { ExactNumber, isExactText, isNumberText, parseJson } from '../../src/base/parse-json.ts';

/** Field of a form for a JSON Schema. */
export interface Field {
  readonly name: string;
  readonly kind: 'text' | 'long' | 'number' | 'yes-no' | 'choice' | 'json';
  /** Hint about the expected syntax. */
  readonly form: string;
  readonly about: string;
  readonly required: boolean;
  readonly choices: readonly string[];
  readonly initial: string;
  readonly isWhole: boolean;
}

type Schema = Readonly<Record<string, unknown>>;

/** Returns the fields of an object; empty if the schema has no properties. */
export function fieldsOf(schema: Schema | null | undefined): Field[] {
  const properties = asObject(schema?.['properties']);
  const required = asList(schema?.['required']);
  return Object.entries(properties).map(([name, definition]) => {
    const property = asObject(definition);
    const choices = asList(property['enum']).filter((choice) => typeof choice === 'string');
    return {
      name,
      kind: kindOf(name, property, choices),
      form: formOf(property, choices),
      about: typeof property['description'] === 'string' ? property['description'] : '',
      required: required.includes(name),
      choices,
      initial: initialOf(property['default']),
      isWhole: property['type'] === 'integer',
    };
  });
}

/** Text that isn't a valid value of its field. */
export class FieldError extends Error {
  readonly field: string;

  constructor(field: string, problem: string) {
    super(`${field} ${problem}`);
    this.field = field;
  }
}

/** Returns the values of the form without empty fields. Throws a FieldError for an invalid value. */
export function valueOf(
  fields: readonly Field[],
  texts: ReadonlyMap<string, string>,
): Record<string, unknown> {
  const value = fields.flatMap((field) => {
    const text = texts.get(field.name) ?? field.initial;
    return text === '' ? [] : [[field.name, read(field, text)] as const];
  });
  return Object.fromEntries(value);
}

function read({ name, kind }: Field, text: string): unknown {
  if (kind === 'yes-no') return text === 'true';
  if (kind === 'number') {
    const number = Number(text);
    if (Number.isNaN(number)) throw new FieldError(name, 'must be a number');
    const trimmed = text.trim();
    return isNumberText(trimmed) && !isExactText(trimmed) ? new ExactNumber(trimmed) : number;
  }
  return kind === 'json' ? parse(name, text) : text;
}

/** Parses a JSON object that the user typed. */
export function parseObject(text: string): Record<string, unknown> {
  const value = text.trim() === '' ? {} : parse('the payload', text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  throw new Error('the payload must be an object: {"name": "value"}');
}

function parse(name: string, text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    throw new FieldError(name, 'must be JSON');
  }
}

function kindOf(name: string, property: Schema, choices: readonly unknown[]): Field['kind'] {
  if (choices.length > 0) return 'choice';
  const { type } = property;
  if (type === 'string') return isLong(name, property) ? 'long' : 'text';
  if (type === 'integer' || type === 'number') return 'number';
  return type === 'boolean' ? 'yes-no' : 'json';
}

const LINE_CHARS = 80;

/** Guesses whether the field needs more than one line. */
function isLong(name: string, { default: initial, maxLength }: Schema): boolean {
  if (/(^|_)prompt(_|$)/i.test(name) || Number(maxLength) > 2 * LINE_CHARS) return true;
  return typeof initial === 'string' && (initial.length > LINE_CHARS || initial.includes('\n'));
}

function formOf(property: Schema, choices: readonly unknown[]): string {
  const { type } = property;
  if (kindOf('', property, choices) !== 'json') return '';
  if (type === 'array') return 'a JSON array: ["one", "two"]';
  return type === 'object' ? 'a JSON object: {"name": "value"}' : 'JSON: put text in "quotes"';
}

function initialOf(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function asObject(value: unknown): Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Schema)
    : {};
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
