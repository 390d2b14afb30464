import { isObject, type Json, type JsonObject } from '../base/json.ts';
import type { Provides } from './package.ts';

export interface FillFault {
  /** The path below `provides`. */
  readonly at: readonly (string | number)[];
  readonly message: string;
}

export interface Filled {
  readonly provides: Provides;
  readonly faults: readonly FillFault[];
}

/**
 * Replaces `${config.x}` with the installer's values. A text that is nothing else becomes the value
 * with its type; a missing value is left out. `$${` is the literal text `${`.
 */
export function fill(provides: Provides, config: JsonObject): Filled {
  const faults: FillFault[] = [];
  const filled = visit(provides as unknown as Json, { config, faults }, []);
  return { provides: filled as unknown as Provides, faults };
}

/** True if the value consists only of the installer's value. */
export function isOpen(value: Json): boolean {
  if (Array.isArray(value)) return value.every(isOpen);
  if (isObject(value)) return Object.values(value).every(isOpen);
  return typeof value === 'string' && whole.test(value);
}

interface Filling {
  readonly config: JsonObject;
  readonly faults: FillFault[];
}

function visit(value: Json, filling: Filling, at: FillFault['at']): Json | undefined {
  if (typeof value === 'string') return fillText(value, filling, at);
  if (Array.isArray(value)) {
    const items = value.map((item, index) => visit(item, filling, [...at, index]));
    return items.filter((item) => item !== undefined);
  }
  if (!isObject(value)) return value;
  const entries = Object.entries(value).flatMap(([key, inner]) => {
    if (key.includes('${')) {
      const message = 'is a name, and names do not change with the configuration';
      filling.faults.push({ at: [...at, key], message });
    }
    const filled = visit(inner, filling, [...at, key]);
    return filled === undefined ? [] : [[key, filled] as const];
  });
  return Object.fromEntries(entries);
}

const token = /\$\$\{|\$\{[^}]*\}?|[^$]+|\$/g;
const whole = /^\$\{\s*config((?:\.[A-Za-z_][A-Za-z0-9_-]*)+)\s*\}$/;

function parse(text: string): string[] | undefined {
  return text.includes('${') ? [...text.matchAll(token)].map(([part]) => part) : undefined;
}

function fillText(
  text: string,
  { config, faults }: Filling,
  at: FillFault['at'],
): Json | undefined {
  const parts = parse(text);
  if (parts === undefined) return text;
  const refuse = (message: string): string => {
    faults.push({ at, message });
    return '';
  };
  const values = parts.map((part): Json | undefined => {
    if (part === '$${') return '${';
    if (!part.startsWith('${')) return part;
    const path = whole.exec(part)?.[1];
    if (path === undefined) {
      return refuse(
        `has ${part}; only \${config.…} is filled in here, and $\${ is the text itself`,
      );
    }
    const found = unescape(lookUp(config, path.slice(1).split('.')));
    if (found !== undefined || parts.length === 1) return found;
    return refuse(`has ${part}, and the configuration of the installation has no ${path.slice(1)}`);
  });
  return values.length === 1 ? values[0] : values.map(toText).join('');
}

function lookUp(config: JsonObject, path: readonly string[]): Json | undefined {
  let value: Json | undefined = config;
  for (const key of path)
    value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  return value;
}

/** `$${` is the literal text `${` in the installer's values, too. */
function unescape<Value extends Json | undefined>(value: Value): Value | Json {
  if (typeof value === 'string') return value.replaceAll('$${', () => '${');
  if (Array.isArray(value)) return value.map((item) => unescape<Json>(item));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, unescape<Json>(inner)]),
  );
}

function toText(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Fills in the defaults that the schema declares. */
export function withDefaults(schema: JsonObject | undefined, config: JsonObject): JsonObject {
  const properties = schema?.['properties'];
  if (!isObject(properties)) return config;
  const filled: JsonObject = { ...config };
  for (const [key, property] of Object.entries(properties)) {
    if (!isObject(property)) continue;
    const given = filled[key];
    if (given === undefined && property['default'] !== undefined) filled[key] = property['default'];
    else if (isObject(given)) filled[key] = withDefaults(property, given);
  }
  return filled;
}
