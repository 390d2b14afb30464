import type { Tenant } from '../api/types.ts';
import { confirmChange } from '../ui/confirm.tsx';

/** Suspends or resumes a tenant, after a confirmation. */
export function toggleTenant({ slug, status }: Tenant, reload: () => void): void {
  const isSuspended = status === 'suspended';
  confirmChange({
    title: `${isSuspended ? 'Resume' : 'Suspend'} the tenant ${slug}?`,
    word: isSuspended ? 'Resume' : 'Suspend',
    name: isSuspended ? 'tenant.resume' : 'tenant.suspend',
    input: { slug },
    done() {
      reload();
      return isSuspended ? 'Tenant resumed' : 'Tenant suspended';
    },
  });
}
