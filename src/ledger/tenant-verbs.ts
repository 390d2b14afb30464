import { limits } from '../base/limits.ts';
import type { Store } from './dialect.ts';
import {
  addTenant,
  addTenantKey,
  awakeTenants,
  dropTenantKey,
  dueTenants,
  findTenant,
  forgetTenant,
  listTenants,
  moveTenant,
  noteAllTenantsDue,
  noteTenantDue,
  noteTenantSchema,
  setTenantLimits,
  tenantOfKey,
} from '../tenant/tenant.sql.ts';
import { tenantSchema, type TenantVerbs } from '../tenant/types.ts';

export function makeTenantVerbs({ dialect, find, read, write }: Store): TenantVerbs {
  return {
    tenants: () => read(listTenants),
    tenant: (slug) => find((session) => findTenant(session, slug)),
    addTenant: (draft) => write(['other'], (tx) => addTenant(tx, draft)),
    moveTenant: (slug, from, to) => write(['other'], (tx) => moveTenant(tx, slug, from, to)),
    setTenantLimits: (slug, given) => write(['other'], (tx) => setTenantLimits(tx, slug, given)),
    forgetTenant: (slug) => write(['other'], (tx) => forgetTenant(tx, slug)),
    dueTenants: (limit) => read((session) => dueTenants(session, limit)),
    noteTenantDue: (slug, due) => write(['other'], (tx) => noteTenantDue(tx, slug, due)),
    noteAllTenantsDue: () => write(['other'], noteAllTenantsDue),
    async awaitTenantClaims() {
      const { awaitClaimsIn } = dialect;
      if (awaitClaimsIn === undefined) return;
      const schemas = (await read(awakeTenants)).map(tenantSchema);
      for (let at = 0; at < schemas.length; at += limits.claimLocksMax) {
        const some = schemas.slice(at, at + limits.claimLocksMax);
        await write(['other'], (tx) => tx.run(awaitClaimsIn(some)));
      }
    },
    noteTenantSchema: (slug, report) =>
      write(['other'], (tx) => noteTenantSchema(tx, slug, report)),
    addTenantKey: (kind, key, slug) => write(['other'], (tx) => addTenantKey(tx, kind, key, slug)),
    dropTenantKey: (kind, key) => write(['other'], (tx) => dropTenantKey(tx, kind, key)),
    tenantOfKey: (kind, key) => find((session) => tenantOfKey(session, kind, key)),
  };
}
