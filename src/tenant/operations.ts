import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import { DuctileError } from '../base/errors.ts';
import type { Engine } from '../engine/engine.ts';
import type { Role } from '../base/roles.ts';
import { showLimits } from './change.service.ts';
import type { Tenants } from './tenants.ts';
import { tenantStatuses, type TenantRow } from './tenants.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective, textIn } from '../operation/request-directive.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

/** The name of a tenant. */
export const slugField = nonBlankText().describe(
  'the name of the tenant: lowercase letters, digits and _',
);

export const tenantLimitShape = z.object({
  workers: z.int().nullable(),
  queue_length: z.int().nullable(),
  signals_per_minute: z.int().nullable(),
  storage_bytes: z.int().nullable(),
});

const tenantShape = z.object({
  slug: z.string(),
  title: z.string(),
  status: z.enum(tenantStatuses),
  limits: tenantLimitShape.describe('limits of shared resources; null for no limit'),
  awake: z.boolean().describe('true if the process that responds has its database open'),
  due_at: z.string().nullable().describe('time of its next work, if known'),
  schema_version: z.int().nullable(),
  schema_error: z.string().nullable().describe('why its database could not be upgraded'),
  schema_at: z.string().nullable(),
  created_by: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
});

const errors = [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'] as const;

/** The fields of a token that is shown once. */
export const tenantTokenFields = {
  token_id: z.string(),
  token_name: z.string(),
  token: z
    .string()
    .nullable()
    .describe('the token, shown only once; null if the request is repeated'),
};

export const listTenantsOperation = defineOperation({
  name: 'tenant.list',
  summary: 'List the tenants and their status.',
  effect: 'read',
  isForRoot: true,
  scope: 'tenants:ro',
  input: z.strictObject(pageFields),
  output: z.object({ tenants: z.array(tenantShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/tenants' },
  cli: {
    examples: ['ductile tenant list'],
    isDefault: true,
    watch: true,
    table: {
      rows: 'tenants',
      columns: [
        ['SLUG', 'slug'],
        ['TITLE', 'title'],
        ['STATUS', 'status'],
        ['AWAKE', 'awake'],
        ['SCHEMA', 'schema_version'],
        ['FAULT', 'schema_error'],
        ['DUE', 'due_at', 'detail'],
        ['CREATED', 'created_at', 'detail'],
      ],
      empty: 'No tenants. Create one with `ductile tenant create`.',
    },
  },
  async run({ engine }, request) {
    const { page, next } = cutPage(await engine.ledger.tenants.list(), (row) => row.slug, request);
    return { tenants: page.map((row) => showTenant(row, engine.tenants)), next_cursor: next };
  },
});

export const showTenantOperation = defineOperation({
  name: 'tenant.show',
  summary: 'Show one tenant.',
  effect: 'read',
  isForRoot: true,
  scope: 'tenants:ro',
  input: z.strictObject({ slug: slugField }),
  output: tenantShape,
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TENANT_NOT_FOUND'],
  http: { method: 'GET', path: '/tenants/:slug' },
  cli: { positionals: ['slug'], examples: ['ductile tenant show acme'] },
  async run({ engine }, { slug: wanted }) {
    const row = await engine.ledger.tenants.find(wanted);
    if (row !== undefined) return showTenant(row, engine.tenants);
    throw new DuctileError('TENANT_NOT_FOUND', `there is no tenant ${wanted}`, { place: 'slug' });
  },
});

export const tokenTenant = defineOperation({
  name: 'tenant.token',
  summary: 'Create a token for a tenant, such as to replace a lost one. It is shown only once.',
  effect: 'write',
  isForRoot: true,
  scope: 'tenants:rw',
  role: 'owner',
  input: z.strictObject({
    slug: slugField,
    name: nonBlankText().describe('name of the token in the tenant'),
    role: z
      .enum(['owner', 'admin', 'member'])
      .default('owner')
      .describe('role of the token in the tenant (default: owner)'),
  }),
  output: z.object({ slug: z.string(), ...tenantTokenFields }),
  errors: [...errors, 'TENANT_NOT_FOUND', 'TENANT_UNAVAILABLE', 'TOKEN_EXISTS'],
  http: {
    method: 'POST',
    path: '/tenants/:slug/token',
    isSecret: true,
    status: () => 201,
    statuses: [201],
  },
  cli: { positionals: ['slug', 'name'], examples: ['ductile tenant token acme spare'] },
  async run(context, input) {
    return { slug: input.slug, ...(await createTenantToken(context, input)) };
  },
  async plan(context, { slug: wanted, name, role }) {
    const visit = await requireTenants(context.engine).visit(wanted);
    try {
      const own = { ...context, engine: visit.engine };
      return await planDirective(own, 'token.create', { name, role });
    } finally {
      visit.end();
    }
  },
});

interface TokenRequest {
  readonly slug: string;
  readonly name: string;
  readonly role?: Role | undefined;
}

/** Creates a token, which is recorded in the tenant's own ledger. */
export async function createTenantToken(context: Context, wanted: TokenRequest) {
  const { slug, name, role = 'owner' } = wanted;
  const visit = await requireTenants(context.engine).visit(slug);
  try {
    const own = { ...context, engine: visit.engine };
    const { result } = await direct(own, 'token.create', { name, role });
    const clear = result['token'];
    return {
      token_id: textIn(result, 'token_id'),
      token_name: name,
      token: typeof clear === 'string' ? clear : null,
    };
  } finally {
    visit.end();
  }
}

/** A ledger that is opened read-only has no tenants. */
export function requireTenants({ tenants }: Pick<Engine, 'tenants'>): Tenants<Engine> {
  if (tenants !== undefined) return tenants;
  throw new DuctileError('TENANT_UNAVAILABLE', 'the databases of tenants are not available here');
}

function showTenant(row: TenantRow, tenants: Tenants | undefined): z.output<typeof tenantShape> {
  return showRow(tenantShape, row, {
    limits: showLimits(row.limits),
    awake: tenants?.open.includes(row.slug) ?? false,
  });
}
