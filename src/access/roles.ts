/** What somebody is in a tenant; each may do what the next may, and more. */
export const roles = ['owner', 'admin', 'member', 'service'] as const;
export type Role = (typeof roles)[number];

/**
 * What each may do, in the words of scopes. A service may do what its own scopes say and nothing
 * else; the others may do that and more.
 */
export const roleScopes: Readonly<Record<Role, readonly string[]>> = {
  owner: ['*'],
  admin: [
    'read:*',
    'plugin:rw',
    'config:rw',
    'credentials:rw',
    'directives:rw',
    'events:rw',
    'incidents:rw',
    'installations:rw',
    'jobs:rw',
    'packages:rw',
    'runs:rw',
    'schedules:rw',
    'system:rw',
    'tokens:rw',
    'webhooks:rw',
  ],
  member: ['read:*', 'plugin:rw', 'events:rw', 'incidents:rw', 'jobs:rw', 'runs:rw'],
  service: [],
};

/** What somebody is whose scopes are all that is known. */
export function roleOf(scopes: readonly string[]): Role {
  return scopes.includes('*') ? 'owner' : 'service';
}

/** Whether a role is at least another. */
export function isAtLeast(role: Role, least: Role): boolean {
  return roles.indexOf(role) <= roles.indexOf(least);
}
