import type { Path } from './document.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Unset {
  readonly path: Path;
  readonly variable: string;
}

export interface Interpolated {
  readonly value: unknown;
  /** Variables that are named but not set; their text is left as it was. */
  readonly unset: readonly Unset[];
}

/**
 * Puts environment variables in place of `${NAME}` in text values. It works on parsed data, so what
 * a variable holds is always text and can never become a key or a line of its own. `$${NAME}` stays
 * as the literal `${NAME}`.
 */
export function interpolate(value: unknown, env: Environment): Interpolated {
  const unset: Unset[] = [];
  return { value: fill(value, [], env, unset), unset };
}

function fill(value: unknown, path: Path, env: Environment, unset: Unset[]): unknown {
  if (typeof value === 'string') return fillText(value, path, env, unset);
  if (Array.isArray(value)) {
    return value.map((inner, index) => fill(inner, [...path, index], env, unset));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, fill(inner, [...path, key], env, unset)]),
  );
}

function fillText(value: string, path: Path, env: Environment, unset: Unset[]): string {
  return value.replaceAll(/\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (whole, escape, name: string) => {
    if (escape !== '') return whole.slice(1);
    const found = Object.hasOwn(env, name) ? env[name] : undefined;
    if (found === undefined) unset.push({ path, variable: name });
    return found ?? whole;
  });
}
