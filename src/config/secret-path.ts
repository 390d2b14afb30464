import { isSecretName } from '../base/secret-names.ts';
import type { Path } from './document.ts';

/** Whether the value of that key of the configuration is a secret. */
export function isSecretPath(path: Path): boolean {
  const last = path.findLast((segment) => typeof segment === 'string') ?? '';
  // A token's name and scopes stand in a list that is called tokens.
  if (path[0] === 'tokens') return last === 'key';
  if (path[0] === 'telemetry') return path[2] === 'headers';
  if (path[0] === 'api') return last === 'token' || last === 'api_key';
  return path[0] === 'plugins' && path[2] === 'config' && isSecretName(last);
}
