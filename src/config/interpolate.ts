import { type KeyPath, isSecretPath } from './document.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface PlaceholderFault {
  readonly path: KeyPath;
  /** `unset` can be ignored for unused values; `invalid` can't. */
  readonly kind: 'unset' | 'invalid';
  readonly message: string;
  readonly hint: string;
}

interface InterpolationResult {
  readonly value: unknown;
  /** Placeholders that couldn't be replaced; their text is left as it was. */
  readonly faults: readonly PlaceholderFault[];
}

/**
 * Replaces `${NAME}` and `${NAME:-default}` in text values with environment variables. It works on
 * parsed data, so the value of a variable is always text and can never become a key or a line of
 * its own. `$${` is the literal text `${`.
 */
export function interpolate(value: unknown, env: Environment): InterpolationResult {
  const faults: PlaceholderFault[] = [];
  return { value: fill(value, [], env, faults), faults };
}

function fill(
  value: unknown,
  path: KeyPath,
  env: Environment,
  faults: PlaceholderFault[],
): unknown {
  if (typeof value === 'string') {
    return value.includes('${') ? fillText(value, path, env, faults) : value;
  }
  if (Array.isArray(value)) {
    return value.map((inner, index) => fill(inner, [...path, index], env, faults));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if (key.includes('${')) faults.push(makeKeyFault([...path, key]));
      return [key, fill(inner, [...path, key], env, faults)];
    }),
  );
}

function fillText(
  value: string,
  path: KeyPath,
  env: Environment,
  faults: PlaceholderFault[],
): string {
  let isDefaulted = false;
  const before = faults.length;
  const filled = splitPlaceholders(value).map((part) => {
    if (part.kind === 'text') return part.text;
    if (part.kind === 'fault') {
      const message = describeFault(part.text, isSecretPath(path));
      faults.push({ path, kind: 'invalid', message, hint: PLACEHOLDER_HINT });
      return part.text;
    }
    const { name, fallback } = part;
    const found = Object.hasOwn(env, name) ? env[name] : undefined;
    if (fallback !== undefined && (found ?? '') === '') {
      isDefaulted = true;
      return fallback;
    }
    if (found === undefined) faults.push(makeUnsetFault(path, name));
    return found ?? `\${${name}}`;
  });
  const text = filled.join('');
  if (faults.length > before || !isSecretPath(path)) return text;
  if (isDefaulted && text.trim() === '') faults.push(makeEmptyFault(path));
  // Passwords of other systems may contain anything; our own tokens never contain `${`.
  if (path[0] !== 'plugins' && text.includes('${')) faults.push(makeUnreplacedFault(path));
  return text;
}

function makeUnsetFault(path: KeyPath, name: string): PlaceholderFault {
  const message = `uses the environment variable ${name}, which is not set`;
  const hint = `Set ${name}, or write $\${${name}} for the text itself.`;
  return { path, kind: 'unset', message, hint };
}

/** A secret that is empty by default would become an empty password if the operator forgets to set it. */
function makeEmptyFault(path: KeyPath): PlaceholderFault {
  const message = 'is a secret, and its default is empty';
  return { path, kind: 'invalid', message, hint: 'Set the variable and remove `:-`.' };
}

/** The environment sometimes holds text that another program should have replaced. */
function makeUnreplacedFault(path: KeyPath): PlaceholderFault {
  const message = 'has a `${` that was not replaced';
  const hint = 'Set the variable to the secret itself; its value is not interpolated.';
  return { path, kind: 'invalid', message, hint };
}

function makeKeyFault(path: KeyPath): PlaceholderFault {
  const message = 'has `${` in its name, and keys are not interpolated';
  return { path, kind: 'invalid', message, hint: 'Write the key itself.' };
}

/** A part of a text that may contain `${NAME}` or `${NAME:-default}`. */
type PlaceholderPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly fallback: string | undefined }
  /** Starts like a placeholder and isn't one. */
  | { readonly kind: 'fault'; readonly text: string };

const variable = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}/y;
/** The beginning of a faulty placeholder, long enough to identify it. */
const faulty = /\$\{[^{}\n]{0,40}\}?/y;

/**
 * Splits a text at its placeholders. `$${` is the literal text `${`. Anything else that starts with
 * `${` is a fault: left as it is, it would become the token or password that it should name.
 */
function splitPlaceholders(text: string): PlaceholderPart[] {
  const parts: PlaceholderPart[] = [];
  let from = 0;
  while (from < text.length) {
    const at = text.indexOf('${', from);
    if (at === -1) break;
    if (at > from && text[at - 1] === '$') {
      parts.push({ kind: 'text', text: `${text.slice(from, at - 1)}\${` });
      from = at + 2;
      continue;
    }
    if (at > from) parts.push({ kind: 'text', text: text.slice(from, at) });
    const part = readPlaceholder(text, at);
    parts.push(part.found);
    from = part.end;
  }
  if (from < text.length) parts.push({ kind: 'text', text: text.slice(from) });
  return parts;
}

/** Checks for a placeholder, valid or not, that isn't escaped. */
export function hasPlaceholder(text: string): boolean {
  return text.includes('${') && splitPlaceholders(text).some(({ kind }) => kind !== 'text');
}

/** Describes a `${` that doesn't start a placeholder, as the predicate of a key. */
export function describeFault(text: string, isSecret: boolean): string {
  // The text around a `${` in a secret may be part of the secret.
  const shown = isSecret || !/^[\w${}. -]+$/.test(text) ? '`${`' : `\`${text}\``;
  return `has ${shown}, which isn't a placeholder`;
}

const PLACEHOLDER_HINT =
  'Write ${NAME} or ${NAME:-default} with letters, digits and _ in NAME, or $${ for the text ${ itself.';

function readPlaceholder(text: string, at: number): { found: PlaceholderPart; end: number } {
  variable.lastIndex = at;
  const match = variable.exec(text);
  if (match !== null) {
    const found = { kind: 'variable', name: match[1] ?? '', fallback: match[2] } as const;
    return { found, end: variable.lastIndex };
  }
  faulty.lastIndex = at;
  const [fault = '${'] = faulty.exec(text) ?? [];
  return { found: { kind: 'fault', text: fault }, end: at + fault.length };
}
