/** The roles of a tenant, highest first; each includes the rights of the next. */
export const roles = ['owner', 'admin', 'member', 'service'] as const;
export type Role = (typeof roles)[number];

/**
 * The scopes of each role. A service only has its own scopes; the other roles have their own in
 * addition.
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

/** Derives the role from scopes alone. */
export function roleOf(scopes: readonly string[]): Role {
  return scopes.includes('*') ? 'owner' : 'service';
}

export function isAtLeast(role: Role, least: Role): boolean {
  return roles.indexOf(role) <= roles.indexOf(least);
}

export function withArticle(role: Role): string {
  return `${role === 'owner' || role === 'admin' ? 'an' : 'a'} ${role}`;
}
