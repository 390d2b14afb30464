import { DuctileError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import type { Isolation } from '../plugin/isolation.ts';

/** Throws when plugins of tenants would see the ledgers of others, and nobody said that they may. */
export function refuseUnisolated(
  { tenants }: Pick<Config, 'tenants'>,
  isolation: (() => Isolation) | undefined,
): void {
  if (tenants.trust === 'shared') return;
  const { tier, reason } = isolation?.() ?? { tier: 'none', reason: 'it is not known here' };
  if (tier !== 'none') return;
  const message = `plugins cannot be kept out of other ledgers: ${reason ?? 'no way was found'}`;
  throw new DuctileError('TENANT_NOT_ISOLATED', message, { place: 'tenants.trust' });
}
