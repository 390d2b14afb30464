import { isSecretName } from '../base/secrets.ts';
import type { KeyPath } from './document.ts';

export function isSecretPath(path: KeyPath): boolean {
  const last = path.findLast((segment) => typeof segment === 'string') ?? '';
  // Names and scopes of tokens are in the list `tokens`, too.
  if (path[0] === 'tokens') return last === 'key';
  if (path[0] === 'telemetry') return path[2] === 'headers';
  if (path[0] === 'api') return last === 'token' || last === 'api_key';
  // The name of a credential isn't a secret.
  if (path[0] === 'webhooks') return isSecretName(last) && last !== 'credential';
  return namesOf(path).some((segment) => typeof segment === 'string' && isSecretName(segment));
}

/**
 * Returns the keys that users choose. If one of them has the name of a secret, every value below it
 * is a secret.
 */
function namesOf(path: KeyPath): KeyPath {
  const [top, , kind] = path;
  if (top === 'pipelines' || top === 'handlers' || top === 'routes') return path.slice(2);
  if (top !== 'plugins') return [];
  if (kind === 'config') return path.slice(3);
  // plugins.<name>.schedules[0].payload
  return kind === 'schedules' && path[4] === 'payload' ? path.slice(5) : [];
}
