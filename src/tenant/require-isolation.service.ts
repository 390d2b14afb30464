import * as inspector from 'node:inspector';
import { DuctileError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import type { Isolation } from '../plugin/isolation.ts';

/** Returns how plugins of tenants are isolated: paths that the configuration names are hidden from them. */
export type IsolationOf = (config: Config) => Isolation;

/** Refuses an open inspector: it runs the code of any client, and plugins can connect to the loopback. */
function refuseInspector(): void {
  const address = inspector.url();
  if (address === undefined) return;
  const message = `The service runs with an open inspector at ${address}, which plugins can reach`;
  const hint = 'Start the service without --inspect.';
  throw new DuctileError('TENANT_NOT_ISOLATED', message, { place: 'tenants.trust', hint });
}

const UNKNOWN = 'the isolation tiers of this host are unknown';

/** Throws if plugins could read the ledgers of other tenants, unless the configuration allows it. */
export function refuseUnisolated(config: Config, isolation: IsolationOf | undefined): void {
  if (config.tenants.trust === 'shared') return;
  refuseInspector();
  const { tier, reason } = isolation?.(config) ?? { tier: 'none', reason: UNKNOWN };
  if (tier !== 'none') return;
  const why = reason ?? 'no isolation tier is available';
  const message = `plugins cannot be kept out of other databases: ${why}`;
  throw new DuctileError('TENANT_NOT_ISOLATED', message, { place: 'tenants.trust' });
}
