import type { Tenant } from '../api/types.ts';
import { ask } from '../ui/confirm.tsx';

/** Asks whether a tenant's work is to stop or to go on. */
export function turnTenant({ slug, status }: Tenant, reload: () => void): void {
  const isOut = status === 'suspended';
  ask({
    title: `${isOut ? 'Resume' : 'Suspend'} the tenant ${slug}?`,
    word: isOut ? 'Resume' : 'Suspend',
    name: isOut ? 'tenant.resume' : 'tenant.suspend',
    input: { slug },
    done() {
      reload();
      return isOut ? 'Its work goes on.' : 'Nothing of it is started any more.';
    },
  });
}
