import { describeFault, PLACEHOLDER_HINT, splitPlaceholders } from '../base/placeholder.ts';
import type { KeyPath } from './document.ts';
import { isSecretPath } from './secret-path.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface PlaceholderFault {
  readonly path: KeyPath;
  /** `unset` can be ignored for unused values; `invalid` can't. */
  readonly kind: 'unset' | 'invalid';
  readonly message: string;
  readonly hint: string;
}

export interface InterpolationResult {
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
