export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Why a value cannot be kept in a ledger, or undefined when it can. Both databases must agree on
 * what they accept, so what one of them cannot store (U+0000) is refused for both.
 */
export function findUnsafe(value: unknown, depthMax: number): string | undefined {
  return visit(value, '$', depthMax);
}

function visit(value: unknown, path: string, depthLeft: number): string | undefined {
  if (depthLeft < 0) return `${path} is nested too deeply`;
  if (typeof value === 'string') {
    if (value.includes('\u0000')) return `${path} contains the character U+0000`;
    return value.isWellFormed() ? undefined : `${path} contains an unpaired surrogate`;
  }
  if (typeof value === 'number') {
    return Number.isFinite(value) ? undefined : `${path} is not a finite number`;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    if (key === '__proto__') return `${path} has the key __proto__`;
    const found =
      visit(key, `${path}.${key}`, depthLeft) ?? visit(inner, `${path}.${key}`, depthLeft - 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
