import { dependencyKey } from '../../base/fields.ts';
import type { Json } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';

const key = dependencyKey();

/** Why something cannot be the key of jobs of which one at a time may run. */
export function dependencyFault(value: Json): string | undefined {
  const [issue] = key.safeParse(value).error?.issues ?? [];
  if (issue?.code === 'invalid_type') return 'must be text';
  if (issue?.code !== 'too_big') return issue?.message;
  return `must have at most ${limits.dependencyKeyCharsMax} characters`;
}
