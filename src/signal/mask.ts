import { ExactNumber, parseJson } from '../base/parse-json.ts';
import { isObject, type Json } from '../base/json.ts';
import { isSecretKey, isEmptySecret, maskText, REDACTED } from '../base/secrets.ts';
import { purposes, type SealedText } from '../base/seal.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Vault } from '../access/vault.ts';

export interface FoundSecret {
  /** The path, such as `data.user.password`. */
  readonly path: string;
  /** The rule that matched. Never the value. */
  readonly rule: string;
}

/**
 * Finds the first secret in a value. Signals are stored, shown and replayed like logs, so they must
 * hold none.
 */
export function findSecret(value: unknown, path: string): FoundSecret | undefined {
  return holdsSecret(value) ? findAt(value, path) : undefined;
}

/** Checks without building paths: nearly every value holds no secret. */
function holdsSecret(value: unknown): boolean {
  if (typeof value === 'string') return maskText(value) !== value;
  if (Array.isArray(value)) return value.some(holdsSecret);
  if (!isObject(value)) return false;
  return Object.keys(value).some((key) => {
    const inner = value[key];
    return isNamedSecret(key, inner) || holdsSecret(inner);
  });
}

function findAt(value: unknown, path: string): FoundSecret | undefined {
  if (typeof value === 'string') {
    return maskText(value) === value ? undefined : { path, rule: 'looks like a token or password' };
  }
  if (Array.isArray(value)) return findAmong(value.entries(), (at) => `${path}[${String(at)}]`);
  if (!isObject(value)) return undefined;
  return findAmong(Object.entries(value), (key) => `${path}.${key}`);
}

export interface MaskedValue {
  /** The same object if nothing was masked. */
  readonly value: Json;
  /** The paths of what was masked. */
  readonly paths: readonly string[];
}

/** Masks secrets in data that can't be refused. */
export function maskData(value: Json, path: string): MaskedValue {
  if (!holdsSecret(value)) return { value, paths: [] };
  const paths: string[] = [];
  return { value: maskAt(value, path, paths), paths };
}

function maskAt(value: Json, path: string, paths: string[]): Json {
  if (typeof value === 'string') {
    const masked = maskText(value);
    if (masked !== value) paths.push(path);
    return masked;
  }
  if (Array.isArray(value)) {
    return value.map((inner, index) => maskAt(inner, `${path}[${index}]`, paths));
  }
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, inner]): [string, Json] => {
    const at = `${path}.${key}`;
    if (!isNamedSecret(key, inner)) return [key, maskAt(inner, at, paths)];
    paths.push(at);
    return [key, REDACTED];
  });
  return Object.fromEntries(entries);
}

type Place = string | number;

function findAmong(
  entries: Iterable<readonly [Place, unknown]>,
  pathOf: (place: Place) => string,
): FoundSecret | undefined {
  for (const [place, inner] of entries) {
    if (typeof place === 'string' && isNamedSecret(place, inner)) {
      return { path: pathOf(place), rule: `is called ${place}` };
    }
    const found = findAt(inner, pathOf(place));
    if (found !== undefined) return found;
  }
  return undefined;
}

function isNamedSecret(name: string, value: unknown): boolean {
  return isSecretKey(name) && isFilled(name, value);
}

/** Objects are checked on their own; a plain list of texts isn't. */
function isFilled(name: string, value: unknown): boolean {
  if (Array.isArray(value)) return value.some((inner) => isFilled(name, inner));
  if (typeof value === 'string') return !isEmptySecret(name, value);
  return typeof value === 'number' || value instanceof ExactNumber;
}

/** The metadata key that lists what was masked. */
export const REDACTED_KEY = 'redacted';

/** Returns whether something was masked in a signal with this metadata. */
export function isMasked(metadata: string): boolean {
  if (!metadata.includes(`"${REDACTED_KEY}"`)) return false;
  const value: unknown = parseJson(metadata);
  const paths = isObject(value) ? value[REDACTED_KEY] : undefined;
  return Array.isArray(paths) && paths.length > 0;
}

/** A payload as signals show it, and the whole payload, sealed, if something was masked. */
export interface MaskedPayload {
  /** JSON text. */
  readonly data: string;
  /** The paths of what was masked. */
  readonly redacted: readonly string[];
  readonly sealed?: SealedText;
}

/** `text` is the payload as JSON, if the caller has it already. */
export type PayloadMask = (payload: Json, signalId: string, text?: string) => MaskedPayload;

/** Masks without sealing: what was masked is lost. */
export const maskPayload: PayloadMask = (payload, _, text) => {
  const { value, paths } = maskData(payload, 'data');
  const isWhole = text !== undefined && value === payload;
  return { data: isWhole ? text : JSON.stringify(value), redacted: paths };
};

/**
 * Creates a mask that also seals the whole payload if something in it was masked. Many users can read
 * signals, and they are kept for long; a sealed payload can still be replayed.
 */
export function makeSealingMask(vault: Pick<Vault, 'seal'>, log: Log): PayloadMask {
  let isLogged = false;
  return (payload, signalId, text = JSON.stringify(payload)) => {
    const masked = maskPayload(payload, signalId, text);
    if (masked.redacted.length === 0) return masked;
    try {
      return { ...masked, sealed: vault.seal(text, purposes.payload(signalId)) };
    } catch (error) {
      // The work has been done and counts. Only its replay is lost.
      if (!isLogged) {
        log.warn('masked payloads cannot be sealed, so their signals cannot be replayed', {
          error: messageOf(error),
        });
      }
      isLogged = true;
      return masked;
    }
  };
}
