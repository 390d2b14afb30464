import type { Config } from '../config/config.ts';
import type { TenantSeams } from '../tenant/change.service.ts';
import type { EngineParts } from './parts.ts';
import { refuseUnisolated } from '../tenant/require-isolation.service.ts';

/** What directives must know of tenants: that this is one, or that there are others. */
export interface TenancySeams {
  /** It does not change what belongs to the process. */
  readonly isTenant: boolean;
  /** Makes a token lead to this ledger, where it is not the root one. */
  readonly lead: ((digest: string) => Promise<void>) | undefined;
  /** A token leads here no more. */
  readonly unlead: ((digest: string) => Promise<void>) | undefined;
  /** Undefined for all but the root ledger. */
  readonly tenants: TenantSeams | undefined;
}

export function seamsOfTenancy(parts: EngineParts, config: () => Config): TenancySeams {
  const { ledger, tenant, tenants, isolation } = parts;
  return {
    isTenant: tenant !== undefined,
    lead:
      tenant === undefined
        ? undefined
        : async (digest) => {
            await tenant.addKey('token', digest);
          },
    unlead: tenant === undefined ? undefined : (digest) => tenant.dropKey('token', digest),
    tenants:
      tenants === undefined
        ? undefined
        : {
            ledger,
            tenants,
            state: () => config().state,
            reapAfterMs: () => config().service.reapAfterMs,
            refuseUnisolated: () => refuseUnisolated(config(), isolation),
          },
  };
}
