import { exportType } from '../directive/backup.ts';
import { deleteCredentialType, rotateKeyType, setCredentialType } from '../directive/credential.ts';
import * as packages from '../directive/package.ts';
import type { Role } from '../directive/role.ts';
import * as switches from '../directive/switch.ts';
import * as tenants from '../directive/tenant.ts';
import { createTokenType } from '../directive/token.ts';
import type { DirectiveType } from '../directive/type.ts';
import * as webhooks from '../directive/webhook.ts';

type Ruled = Pick<DirectiveType, 'type' | 'role'>;

/** The directive types that name a role; a test compares them with those that an engine registers. */
const ruled: readonly Ruled[] = [
  createTokenType,
  exportType,
  deleteCredentialType,
  rotateKeyType,
  setCredentialType,
  packages.disableType,
  packages.enableType,
  packages.installType,
  packages.uninstallType,
  packages.upgradeType,
  switches.disableType,
  switches.enableType,
  tenants.createTenantType,
  tenants.deleteTenantType,
  tenants.limitTenantType,
  tenants.resumeTenantType,
  tenants.suspendTenantType,
  webhooks.createWebhookType,
  webhooks.deleteWebhookType,
  webhooks.replayDeliveryType,
  webhooks.rotateWebhookType,
  webhooks.testWebhookType,
  webhooks.updateWebhookType,
];

const roleByType = new Map(ruled.map(({ type, role }) => [type, role]));

/** The directives of operations that have another name. */
const directiveBehind: Readonly<Record<string, string>> = {
  'credential.rotate-key': 'credential.rotate',
  'tenant.token': 'tenant.create',
  'webhook.add': 'webhook.create',
  'webhook.edit': 'webhook.update',
  'webhook.remove': 'webhook.delete',
};

/** The role that the directive behind an operation names; undefined if scopes alone decide. */
export function roleForOperation(name: string): Role | undefined {
  return roleByType.get(directiveBehind[name] ?? name);
}
