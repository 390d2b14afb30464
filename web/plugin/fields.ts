import { ExactNumber, isExactText, isNumberText, parseJson } from '../../src/base/parse-json.ts';

/** A form for what a JSON Schema describes. */
export interface Field {
  readonly name: string;
  readonly kind: 'text' | 'long' | 'number' | 'yes-no' | 'choice' | 'json';
  /** How it is to be written, where that is not plain to see. */
  readonly form: string;
  readonly about: string;
  readonly required: boolean;
  readonly choices: readonly string[];
  readonly initial: string;
  readonly isWhole: boolean;
}

type Schema = Readonly<Record<string, unknown>>;

/** The fields of an object; none when the schema does not say what they are. */
export function fieldsOf(schema: Schema | null | undefined): Field[] {
  const properties = asObject(schema?.['properties']);
  const required = asList(schema?.['required']);
  return Object.entries(properties).map(([name, given]) => {
    const property = asObject(given);
    const choices = asList(property['enum']).filter((one) => typeof one === 'string');
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

/** What somebody typed is no value of its field. */
export class FieldFault extends Error {
  readonly field: string;

  constructor(field: string, problem: string) {
    super(`${field} ${problem}`);
    this.field = field;
  }
}

/** What was filled in; what was left empty is left out. Throws a FieldFault when something is no value. */
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
    if (Number.isNaN(number)) throw new FieldFault(name, 'must be a number');
    const trimmed = text.trim();
    return isNumberText(trimmed) && !isExactText(trimmed) ? new ExactNumber(trimmed) : number;
  }
  return kind === 'json' ? parse(name, text) : text;
}

/** A JSON object that somebody typed. */
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
    throw new FieldFault(name, 'must be JSON');
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

/** Whether what is written there is more than one line as a rule. */
function isLong(name: string, { default: initial, maxLength }: Schema): boolean {
  if (/(^|_)prompt(_|$)/i.test(name) || Number(maxLength) > 2 * LINE_CHARS) return true;
  return typeof initial === 'string' && (initial.length > LINE_CHARS || initial.includes('\n'));
}

function formOf(property: Schema, choices: readonly unknown[]): string {
  const { type } = property;
  if (kindOf('', property, choices) !== 'json') return '';
  if (type === 'array') return 'a JSON array: ["one", "two"]';
  return type === 'object' ? 'a JSON object: {"name": "value"}' : 'JSON: a text stands in "quotes"';
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
