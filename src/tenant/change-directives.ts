import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/directive.ts';

/** The limits of a tenant; null for no limit. */
export const tenantLimitFields = {
  workers: z.int().min(1).nullable().optional().describe('jobs that it may run at once'),
  queue_length: z
    .int()
    .min(1)
    .nullable()
    .optional()
    .describe('queued jobs that it may have, ready or delayed'),
  signals_per_minute: z.int().min(1).nullable().optional().describe('signals it may report'),
  storage_bytes: z.int().min(1).nullable().optional().describe('bytes that its ledger may take'),
};

export interface LimitParams {
  readonly workers?: number | null | undefined;
  readonly queue_length?: number | null | undefined;
  readonly signals_per_minute?: number | null | undefined;
  readonly storage_bytes?: number | null | undefined;
}

export interface TenantParams extends LimitParams {
  readonly slug: string;
  readonly title?: string | undefined;
}

export interface TenantChoice {
  readonly slug: string;
}

export interface TenantLimitParams extends LimitParams, TenantChoice {}

export interface TenantDeletion extends TenantChoice {
  readonly confirm: string;
}

/** The slug is part of a file name and of a schema name. */
export const tenantSlug = z
  .string()
  .regex(new RegExp(`^[a-z][a-z0-9_]{0,${limits.tenantSlugCharsMax - 1}}$`), {
    error: `must be a lowercase letter, then letters, digits and _, at most ${limits.tenantSlugCharsMax}`,
  })
  .refine((slug) => slug !== 'root', { error: 'is the name of the ledger that all have' });

/** Only owners of the root ledger have this scope. */
const common = {
  scope: 'tenants:rw',
  role: 'owner',
  // A repeated execution continues with the step that is left.
  isRepeatable: true,
  target: ({ slug }: TenantChoice) => slug,
} as const;

export const createTenantType: DirectiveType<TenantParams> = {
  ...common,
  type: 'tenant.create',
  summary: 'Make a tenant: a ledger of its own.',
  params: z.strictObject({
    slug: tenantSlug,
    title: z.string().max(limits.tenantTitleCharsMax).optional(),
    ...tenantLimitFields,
  }),
  sameness: () => 'each',
};

export const suspendTenantType = choiceType(
  'tenant.suspend',
  'Accept no new work of a tenant and start none of its jobs.',
);

export const resumeTenantType = choiceType(
  'tenant.resume',
  'Accept and start the work of a tenant again.',
);

export const limitTenantType: DirectiveType<TenantLimitParams> = {
  ...common,
  type: 'tenant.limit',
  summary: 'Say what a tenant may use of what all share.',
  params: z.strictObject({ slug: tenantSlug, ...tenantLimitFields }),
  sameness: () => 'each',
};

export const deleteTenantType: DirectiveType<TenantDeletion> = {
  ...common,
  type: 'tenant.delete',
  summary: 'Remove a tenant with everything in its ledger, for ever.',
  params: z
    .strictObject({ slug: tenantSlug, confirm: z.string() })
    .refine(({ slug, confirm }) => slug === confirm, {
      path: ['confirm'],
      error: 'must be the name of the tenant again: this cannot be undone',
    }),
  sameness: () => 'each',
};

function choiceType(type: string, summary: string): DirectiveType<TenantChoice> {
  return {
    ...common,
    type,
    summary,
    params: z.strictObject({ slug: tenantSlug }),
    sameness: () => 'toggle',
  };
}
