import { isObject } from '../base/json.ts';
import { maskText, REDACTED } from '../base/secrets.ts';

export interface SecretFound {
  /** Where it is, such as `data.user.password`. */
  readonly path: string;
  /** By what it was recognised; never the value. */
  readonly rule: string;
}

/** The first place that holds what no signal may: signals are kept, shown and told again like logs. */
export function findSecret(value: unknown, path: string): SecretFound | undefined {
  if (typeof value === 'string') {
    return maskText(value) === value ? undefined : { path, rule: 'looks like a token or password' };
  }
  if (Array.isArray(value)) return findAmong(value.entries(), (at) => `${path}[${String(at)}]`);
  if (!isObject(value)) return undefined;
  return findAmong(Object.entries(value), (key) => `${path}.${key}`);
}

type Place = string | number;

function findAmong(
  entries: Iterable<readonly [Place, unknown]>,
  pathOf: (place: Place) => string,
): SecretFound | undefined {
  for (const [place, inner] of entries) {
    if (typeof place === 'string' && names.has(toSnake(place)) && isFilled(inner)) {
      return { path: pathOf(place), rule: `is called ${place}` };
    }
    const found = findSecret(inner, pathOf(place));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Exactly these, however they are spelled: `page_token` or `password_policy` are nobody's secret. */
const names: ReadonlySet<string> = new Set([
  'access_key',
  'access_token',
  'api_key',
  'api_token',
  'apikey',
  'auth_token',
  'authorization',
  'bearer_token',
  'client_secret',
  'cookie',
  'credential',
  'credentials',
  'encryption_key',
  'id_token',
  'passphrase',
  'passwd',
  'password',
  'private_key',
  'proxy_authorization',
  'refresh_token',
  'secret',
  'secret_access_key',
  'secret_key',
  'session_token',
  'set_cookie',
  'signing_key',
  'token',
  'webhook_secret',
  'x_api_key',
]);

function toSnake(name: string): string {
  const words = name.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').replaceAll(/[-. ]/g, '_');
  return words.toLowerCase();
}

/** What is within a list or an object is looked at by itself, but a bare list of texts is not. */
function isFilled(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(isFilled);
  return typeof value === 'number' || (typeof value === 'string' && !empty.has(value));
}

const empty: ReadonlySet<string> = new Set(['', REDACTED]);
