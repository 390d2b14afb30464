import { isSecretName } from '../base/secrets.ts';
import type { Path } from './document.ts';

/** Whether the value at that path of the configuration is a secret. */
export function isSecretPath(path: Path): boolean {
  const last = path.findLast((segment) => typeof segment === 'string') ?? '';
  // A token's name and scopes are in a list that is called tokens.
  if (path[0] === 'tokens') return last === 'key';
  if (path[0] === 'telemetry') return path[2] === 'headers';
  if (path[0] === 'api') return last === 'token' || last === 'api_key';
  // A credential is named here, and its value is elsewhere.
  if (path[0] === 'webhooks') return isSecretName(last) && last !== 'credential';
  return namesOf(path).some((segment) => typeof segment === 'string' && isSecretName(segment));
}

/** The keys that users choose, below which everything may be a secret if one of them says so. */
function namesOf(path: Path): Path {
  const [top, , kind] = path;
  if (top === 'pipelines' || top === 'handlers' || top === 'routes') return path.slice(2);
  if (top !== 'plugins') return [];
  if (kind === 'config') return path.slice(3);
  // plugins.<name>.schedules[0].payload
  return kind === 'schedules' && path[4] === 'payload' ? path.slice(5) : [];
}
