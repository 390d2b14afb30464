import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { probe } from '../base/probe.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import { locateTenantLedger, removeLedger } from '../ledger/tenant-location.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { textIn } from '../operation/request-directive.ts';
import {
  awaitTenantClosed,
  createStatusError,
  createTenantLedger,
  describeLimits,
  describeTenantJobs,
  mergeLimits,
  noLimits,
  refuseTakenTenant,
  requireTenant,
  showLimits,
  tenantLimitFields,
  tenantSlug,
} from './change.service.ts';
import {
  createTenantToken,
  requireTenants,
  slugField,
  tenantLimitShape,
  tenantTokenFields,
} from './operations.ts';
import { refuseUnisolated } from './require-isolation.service.ts';
import type { TenantStatus } from './tenants.ts';

/** Only the operator of the system manages tenants: only owners of the root ledger have this scope. */
const common = {
  scope: 'tenants:rw',
  role: 'owner',
  ledgers: 'root',
  // A repeated execution continues with the step that is left.
  isRepeatable: true,
  target: ({ slug }: { readonly slug: string }) => slug,
} as const;

export const createTenantDirective = defineDirective({
  ...common,
  type: 'tenant.create',
  summary: 'Create a tenant with its own database. The token of its owner is shown only once.',
  params: z.strictObject({
    slug: tenantSlug,
    title: z.string().max(limits.tenantTitleCharsMax).optional(),
    ...tenantLimitFields,
  }),
  sameness: () => 'each',
  async plan(context, { slug }) {
    refuseUnisolated(context.config, context.services.isolation);
    await refuseTakenTenant(context, slug);
    const place = locateTenantLedger(context.config.state, slug);
    const where = place.kind === 'sqlite' ? `the file ${place.path}` : `schema ${place.schema}`;
    return [`Tenant ${slug} will be created, with its database in ${where}.`];
  },
  async execute(context, { slug, title = slug, ...params }, { actor }) {
    const { ledger } = context;
    const draft = { slug, title, limits: mergeLimits(noLimits, params), createdBy: actor };
    const isNew = await ledger.tenants.insert(draft);
    if (!isNew) await refuseTakenTenant(context, slug);
    probe('tenant.before-ledger');
    await createTenantLedger(context, slug);
    probe('tenant.after-ledger');
    await ledger.tenants.updateStatus(slug, ['creating'], 'active');
    return { slug, status: 'active' };
  },
  after: ({ services }) => services.tenants?.soon(),
  operation: {
    effect: 'write',
    isForRoot: true,
    input: z.strictObject({
      slug: slugField,
      title: nonBlankText()
        .max(limits.tenantTitleCharsMax)
        .optional()
        .describe('display name (default: the slug)'),
      ...tenantLimitFields,
    }),
    output: z.object({
      slug: z.string(),
      status: z.string(),
      directive_id: directiveIdField,
      ...tenantTokenFields,
    }),
    errors: [
      'INPUT_INVALID',
      'LEDGER_UNAVAILABLE',
      'TENANT_EXISTS',
      'TENANT_NOT_ISOLATED',
      'TENANT_UNAVAILABLE',
      'TOKEN_EXISTS',
    ],
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
    toParams(context, input) {
      requireTenants(context.engine);
      return withoutUndefined(input);
    },
    async toOutput(context, { input: { slug }, result }) {
      const created = await createTenantToken(context, { slug, name: 'owner' });
      return { slug, status: textIn(result, 'status'), ...created };
    },
  },
});

const statusParams = z.strictObject({ slug: tenantSlug });

const statusOperation = {
  effect: 'write',
  isForRoot: true,
  input: z.strictObject({ slug: slugField }),
  output: z.object({ slug: z.string(), status: z.string(), directive_id: directiveIdField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TENANT_NOT_FOUND', 'TENANT_UNAVAILABLE'],
} as const;

export const suspendTenantDirective = defineDirective({
  ...common,
  type: 'tenant.suspend',
  summary: 'Suspend a tenant. It accepts no new work, and its queued jobs do not start.',
  params: statusParams,
  sameness: () => 'toggle',
  async plan({ ledger }, { slug }) {
    const { status } = await requireTenant(ledger, slug);
    if (status === 'suspended') {
      return [`Tenant ${slug} is already suspended; nothing would change.`];
    }
    if (status !== 'active') throw createStatusError(slug, status);
    return [
      `Tenant ${slug} will accept no new work, and its queued jobs will not start.`,
      'Its running jobs will continue.',
    ];
  },
  execute: (context, { slug }) => moveTenant(context, slug, { from: 'active', to: 'suspended' }),
  after: notifyTenants,
  operation: {
    ...statusOperation,
    http: { method: 'POST', path: '/tenants/:slug/suspend' },
    cli: { positionals: ['slug'], examples: ['ductile tenant suspend acme'] },
  },
});

export const resumeTenantDirective = defineDirective({
  ...common,
  type: 'tenant.resume',
  summary: 'Resume a suspended tenant. It accepts work and starts jobs again.',
  params: statusParams,
  sameness: () => 'toggle',
  async plan({ ledger }, { slug }) {
    const { status } = await requireTenant(ledger, slug);
    if (status === 'active') return [`Tenant ${slug} is already active; nothing would change.`];
    if (status !== 'suspended') throw createStatusError(slug, status);
    return [`Tenant ${slug} will accept work and start jobs again.`];
  },
  execute: (context, { slug }) => moveTenant(context, slug, { from: 'suspended', to: 'active' }),
  async after(context, { slug }) {
    // Waiting work may start now, here and on other hosts.
    await context.ledger.tenants.recordDue(slug, 'now');
    notifyTenants(context);
  },
  operation: {
    ...statusOperation,
    http: { method: 'POST', path: '/tenants/:slug/resume' },
    cli: { positionals: ['slug'], examples: ['ductile tenant resume acme'] },
  },
});

export const limitTenantDirective = defineDirective({
  ...common,
  type: 'tenant.limit',
  summary: 'Change limits of a tenant. Other limits stay; null removes a limit.',
  params: z.strictObject({ slug: tenantSlug, ...tenantLimitFields }),
  sameness: () => 'each',
  async plan({ ledger }, { slug, ...params }) {
    const { limits: before } = await requireTenant(ledger, slug);
    const after = mergeLimits(before, params);
    return [`Tenant ${slug} will have ${describeLimits(after)}. It has ${describeLimits(before)}.`];
  },
  async execute({ ledger }, { slug, ...params }) {
    const { limits: before } = await requireTenant(ledger, slug);
    const after = mergeLimits(before, params);
    await ledger.tenants.updateLimits(slug, after);
    return { slug, limits: showLimits(after) };
  },
  after: notifyTenants,
  operation: {
    effect: 'write',
    isForRoot: true,
    input: z.strictObject({ slug: slugField, ...tenantLimitFields }),
    output: z.object({
      slug: z.string(),
      limits: tenantLimitShape,
      directive_id: directiveIdField,
    }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TENANT_NOT_FOUND'],
    http: { method: 'POST', path: '/tenants/:slug/limit' },
    cli: {
      positionals: ['slug'],
      examples: ['ductile tenant limit acme --workers 2 --queue-length 10000'],
    },
    toParams: (_context, input) => withoutUndefined(input),
  },
});

export const deleteTenantDirective = defineDirective({
  ...common,
  type: 'tenant.delete',
  summary: 'Delete a tenant and all its data permanently.',
  params: z
    .strictObject({ slug: tenantSlug, confirm: z.string() })
    .refine(({ slug, confirm }) => slug === confirm, {
      path: ['confirm'],
      error: 'must repeat the name of the tenant: a deletion cannot be undone',
    }),
  sameness: () => 'each',
  async plan(context, { slug }) {
    const { title } = await requireTenant(context.ledger, slug);
    return [
      `Tenant ${slug} (${title}) will be deleted: ${await describeTenantJobs(context, slug)}.`,
      'Its database, tokens, credentials and installations will be lost. This cannot be undone.',
    ];
  },
  async execute(context, { slug }, execution) {
    const { ledger } = context;
    const tenants = requireTenants(context.services);
    // An earlier execution may have deleted it and died before its end was recorded.
    if ((await ledger.tenants.find(slug)) === undefined) return { slug, deleted: true };
    await ledger.tenants.updateStatus(slug, ['creating', 'active', 'suspended'], 'deleting');
    ledger.hint();
    await tenants.block(slug);
    try {
      await awaitTenantClosed(context, slug, execution);
      probe('tenant.before-removal');
      await removeLedger(locateTenantLedger(context.config.state, slug));
      probe('tenant.after-removal');
      await ledger.tenants.delete(slug);
    } finally {
      tenants.unblock(slug);
    }
    return { slug, deleted: true };
  },
  operation: {
    effect: 'destroy',
    isForRoot: true,
    input: z.strictObject({
      slug: slugField,
      confirm: nonBlankText().describe('the name of the tenant again'),
    }),
    output: z.object({ slug: z.string(), deleted: z.boolean(), directive_id: directiveIdField }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TENANT_NOT_FOUND', 'TENANT_UNAVAILABLE'],
    http: { method: 'POST', path: '/tenants/:slug/delete' },
    cli: {
      positionals: ['slug'],
      examples: [
        'ductile tenant delete acme --confirm acme --dry-run',
        'ductile tenant delete acme --confirm acme',
      ],
    },
  },
});

async function moveTenant(
  { ledger }: DirectiveContext,
  slug: string,
  { from, to }: { readonly from: TenantStatus; readonly to: TenantStatus },
) {
  const isMoved = await ledger.tenants.updateStatus(slug, [from], to);
  const { status } = await requireTenant(ledger, slug);
  if (!isMoved && status !== to) throw createStatusError(slug, status);
  return { slug, status };
}

/** Notifies this process and other hosts that tenants have changed. */
function notifyTenants({ ledger, services }: DirectiveContext): void {
  ledger.hint();
  services.tenants?.soon();
}

function withoutUndefined(input: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
}
