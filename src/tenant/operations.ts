import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Engine } from '../engine/engine.ts';
import type { Role } from '../base/roles.ts';
import { tenantLimitFields, type LimitParams } from './change-directives.ts';
import { showLimits } from './change.service.ts';
import type { Tenants } from './tenants.ts';
import { tenantStatuses, type TenantRow } from './tenants.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective, textIn } from '../operation/request-directive.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

const slug = nonBlankText().describe('its name: lowercase letters, digits and _');

const limitShape = z.object({
  workers: z.int().nullable(),
  queue_length: z.int().nullable(),
  signals_per_minute: z.int().nullable(),
  storage_bytes: z.int().nullable(),
});

const tenantShape = z.object({
  slug: z.string(),
  title: z.string(),
  status: z.enum(tenantStatuses),
  limits: limitShape.describe('what it may use of what all share; null for no limit'),
  awake: z.boolean().describe('whether the process that answers has its ledger open now'),
  due_at: z.string().nullable().describe('when something is to be done in it, as far as is known'),
  schema_version: z.int().nullable(),
  schema_error: z.string().nullable().describe('why its ledger could not be brought up to date'),
  schema_at: z.string().nullable(),
  created_by: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
});

/** Only the operator of the system manages tenants. */
const common = { isForRoot: true, scope: 'tenants:rw' } as const;

const errors = [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'] as const;

const token = {
  token_id: z.string(),
  token_name: z.string(),
  token: z.string().nullable().describe('its text, shown this once: null when asked again'),
};

export const createTenant = defineOperation({
  name: 'tenant.create',
  summary: 'Make a tenant with a ledger of its own; the token of its owner is shown once.',
  effect: 'write',
  ...common,
  input: z.strictObject({
    slug,
    title: nonBlankText()
      .max(limits.tenantTitleCharsMax)
      .optional()
      .describe('what people call it'),
    ...tenantLimitFields,
  }),
  output: z.object({ slug: z.string(), status: z.string(), directive_id: z.string(), ...token }),
  errors: [...errors, 'TENANT_EXISTS', 'TENANT_NOT_ISOLATED', 'TENANT_UNAVAILABLE', 'TOKEN_EXISTS'],
  http: {
    method: 'POST',
    path: '/tenants',
    isSecret: true,
    status: () => 201,
    statuses: [201],
    location: '/tenants/:slug',
  },
  cli: {
    positionals: ['slug'],
    examples: [
      'ductile tenant create acme --title "Acme Ltd" --workers 4',
      'ductile tenant create acme --dry-run',
    ],
  },
  async run(context, input) {
    const tenants = requireTenants(context);
    const { id, result } = await direct(context, 'tenant.create', withoutUndefined(input));
    const created = await createTenantToken(context, tenants, { slug: input.slug, name: 'owner' });
    return { slug: input.slug, status: textIn(result, 'status'), directive_id: id, ...created };
  },
  plan: (context, input) => planDirective(context, 'tenant.create', withoutUndefined(input)),
});

export const listTenantsOperation = defineOperation({
  name: 'tenant.list',
  summary: 'List the tenants and how they are.',
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
      empty: 'There are no tenants: everything is in one ledger.',
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
  input: z.strictObject({ slug }),
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

export const suspendTenant = defineStatusChange('suspend', {
  summary: 'Accept no new work of a tenant and start none of its jobs.',
  effect: 'write',
});

export const resumeTenant = defineStatusChange('resume', {
  summary: 'Accept and start the work of a tenant again.',
  effect: 'write',
});

export const limitTenant = defineOperation({
  name: 'tenant.limit',
  summary: 'Say what a tenant may use; what is not named stays, null takes a limit away.',
  effect: 'write',
  ...common,
  input: z.strictObject({ slug, ...tenantLimitFields }),
  output: z.object({ slug: z.string(), limits: limitShape, directive_id: z.string() }),
  errors: [...errors, 'TENANT_NOT_FOUND'],
  http: { method: 'POST', path: '/tenants/:slug/limit' },
  cli: {
    positionals: ['slug'],
    examples: ['ductile tenant limit acme --workers 2 --queue-length 10000'],
  },
  async run(context, input) {
    const { id, result } = await direct(context, 'tenant.limit', withoutUndefined(input));
    return { slug: input.slug, limits: limitShape.parse(result['limits']), directive_id: id };
  },
  plan: (context, input) => planDirective(context, 'tenant.limit', withoutUndefined(input)),
});

export const deleteTenant = defineOperation({
  name: 'tenant.delete',
  summary: 'Remove a tenant with everything in its ledger, for ever.',
  effect: 'destroy',
  ...common,
  input: z.strictObject({ slug, confirm: nonBlankText().describe('its name again') }),
  output: z.object({ slug: z.string(), deleted: z.boolean(), directive_id: z.string() }),
  errors: [...errors, 'TENANT_NOT_FOUND', 'TENANT_UNAVAILABLE'],
  http: { method: 'POST', path: '/tenants/:slug/delete' },
  cli: {
    positionals: ['slug'],
    examples: [
      'ductile tenant delete acme --confirm acme --dry-run',
      'ductile tenant delete acme --confirm acme',
    ],
  },
  async run(context, input) {
    const { id } = await direct(context, 'tenant.delete', input);
    return { slug: input.slug, deleted: true, directive_id: id };
  },
  plan: (context, input) => planDirective(context, 'tenant.delete', input),
});

export const tokenTenant = defineOperation({
  name: 'tenant.token',
  summary: 'Make a token for a tenant, for instance when the first one is lost; shown once.',
  effect: 'write',
  ...common,
  input: z.strictObject({
    slug,
    name: nonBlankText().describe('what it is called there'),
    role: z.enum(['owner', 'admin', 'member']).default('owner').describe('what it is there'),
  }),
  output: z.object({ slug: z.string(), ...token }),
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
    return {
      slug: input.slug,
      ...(await createTenantToken(context, requireTenants(context), input)),
    };
  },
  async plan(context, { slug: wanted, name, role }) {
    const visit = await requireTenants(context).visit(wanted);
    try {
      const own = { ...context, engine: visit.engine };
      return await planDirective(own, 'token.create', { name, role });
    } finally {
      visit.end();
    }
  },
});

function defineStatusChange(
  action: 'resume' | 'suspend',
  { summary, effect }: { readonly summary: string; readonly effect: 'write' },
) {
  return defineOperation({
    name: `tenant.${action}`,
    summary,
    effect,
    ...common,
    input: z.strictObject({ slug }),
    output: z.object({ slug: z.string(), status: z.string(), directive_id: z.string() }),
    errors: [...errors, 'TENANT_NOT_FOUND', 'TENANT_UNAVAILABLE'],
    http: { method: 'POST', path: `/tenants/:slug/${action}` },
    cli: { positionals: ['slug'], examples: [`ductile tenant ${action} acme`] },
    async run(context, input) {
      const { id, result } = await direct(context, `tenant.${action}`, input);
      return { slug: input.slug, status: textIn(result, 'status'), directive_id: id };
    },
    plan: (context, input) => planDirective(context, `tenant.${action}`, input),
  });
}

interface TokenRequest {
  readonly slug: string;
  readonly name: string;
  readonly role?: Role | undefined;
}

/** Creates a token, which is recorded in the tenant's own ledger. */
async function createTenantToken(context: Context, tenants: Tenants<Engine>, wanted: TokenRequest) {
  const { slug: at, name, role = 'owner' } = wanted;
  const visit = await tenants.visit(at);
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
function requireTenants({ engine }: Context): Tenants<Engine> {
  if (engine.tenants !== undefined) return engine.tenants;
  throw new DuctileError('TENANT_UNAVAILABLE', 'the ledgers of tenants are not to be had here');
}

function withoutUndefined(input: LimitParams & { readonly slug: string }): object {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
}

function showTenant(row: TenantRow, tenants: Tenants | undefined): z.output<typeof tenantShape> {
  return showRow(tenantShape, row, {
    limits: showLimits(row.limits),
    awake: tenants?.open.includes(row.slug) ?? false,
  });
}
