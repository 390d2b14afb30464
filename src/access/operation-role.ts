import { exportType } from '../ledger/backup-directives.ts';
import { deleteCredentialType, rotateKeyType, setCredentialType } from './credential-directives.ts';
import * as packages from '../package/change-directives.ts';
import type { Role } from './roles.ts';
import * as switches from '../engine/switch-directives.ts';
import * as tenants from '../tenant/change-directives.ts';
import { createTokenType } from './token-directives.ts';
import type { DirectiveType } from '../directive/type.ts';
import * as webhooks from '../webhook/change-directives.ts';

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
