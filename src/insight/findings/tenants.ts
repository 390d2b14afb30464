import type { TenantRow } from '../../tenant/tenants.ts';
import { defineFinding } from '../define-finding.service.ts';

export const tenantClosed = defineFinding<Pick<TenantRow, 'slug' | 'schemaError'>>({
  kind: 'tenant_closed',
  condition: 'The ledger of a tenant does not open.',
  rank: { severity: 'error', category: 'state' },
  fix: 'Ductile tries it again by itself; `ductile system migrate` tries it at once.',
  command: 'ductile tenant show TENANT',
  describe: ({ slug, schemaError }) => ({
    key: slug,
    message: `The tenant ${slug} has a ledger that does not open: ${schemaError}`,
    evidence: `the last attempt to open the ledger of ${slug}`,
    commands: ['ductile system migrate'],
  }),
});
