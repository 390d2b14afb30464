import { noRules } from '../ledger/rules.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { DuctileError, messageOf } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { probe } from '../base/probe.ts';
import {
  createTenantType,
  deleteTenantType,
  limitTenantType,
  resumeTenantType,
  suspendTenantType,
  type LimitParams,
  type TenantParams,
  type TenantChoice,
  type TenantDeletion,
  type TenantLimitParams,
} from './change-directives.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { schemaVersion } from '../ledger/migrate.ts';
import { openLedger } from '../ledger/open.ts';
import { openReadonlyLedger, readSchemaVersion } from '../ledger/open-readonly.ts';
import { findLiveHost, removeLedger, locateTenantLedger } from '../ledger/tenant-location.ts';
import type { TenantLimits, TenantRow, TenantStatus } from './tenants.ts';
import type { DirectiveExecution, BoundDirective } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import type { Tenants } from './tenants.ts';
import type { LedgerContext } from '../engine/context.ts';
import { refuseUnisolated, type IsolationOf } from './require-isolation.service.ts';

/** The pause between two checks whether other hosts have closed the tenant. */
const CHECK_MS = 200;

/** Registers the directives of the root ledger that change tenants. */
export function registerTenantDirectives(
  directives: Directives,
  context: LedgerContext,
  tenants: Tenants,
  isolation: IsolationOf | undefined,
): void {
  directives.registerDirective(createDirective(context, tenants, isolation));
  directives.registerDirective(
    statusDirective(context, tenants, suspendTenantType, { from: 'active', to: 'suspended' }),
  );
  directives.registerDirective(
    statusDirective(context, tenants, resumeTenantType, { from: 'suspended', to: 'active' }),
  );
  directives.registerDirective(limitDirective(context, tenants));
  directives.registerDirective(deleteDirective(context, tenants));
}

function createDirective(
  context: LedgerContext,
  tenants: Tenants,
  isolation: IsolationOf | undefined,
): BoundDirective<TenantParams> {
  const { ledger } = context;
  return {
    ...createTenantType,
    async plan({ slug }) {
      refuseUnisolated(context.config, isolation);
      await refuseTaken(context, slug);
      const place = locateTenantLedger(context.config.state, slug);
      const where = place.kind === 'sqlite' ? `the file ${place.path}` : `schema ${place.schema}`;
      return [`A tenant ${slug} would be made, with its ledger in ${where}.`];
    },
    async execute({ slug, title = slug, ...params }, { actor }) {
      const draft = { slug, title, limits: mergeLimits(noLimits, params), createdBy: actor };
      const isNew = await ledger.tenants.insert(draft);
      if (!isNew) await refuseTaken(context, slug);
      probe('tenant.before-ledger');
      await createTenantLedger(context, slug);
      probe('tenant.after-ledger');
      await ledger.tenants.updateStatus(slug, ['creating'], 'active');
      return { slug, status: 'active' };
    },
    after: () => tenants.soon(),
  };
}

/** Refuses an existing tenant, unless it is incomplete because its process died. */
async function refuseTaken({ ledger }: LedgerContext, slug: string): Promise<void> {
  const known = await ledger.tenants.find(slug);
  if (known === undefined || known.status === 'creating') return;
  throw new DuctileError('TENANT_EXISTS', `there is a tenant ${slug} already`, { place: 'slug' });
}

/** Creates the ledger of a tenant. Throws if another ledger exists under its name. */
async function createTenantLedger({ ledger, config }: LedgerContext, slug: string): Promise<void> {
  const place = locateTenantLedger(config.state, slug);
  const epoch = (await ledger.meta.read('epoch')) ?? '';
  const mark = `${epoch} ${slug}`;
  const exists = (await readSchemaVersion(place)) !== undefined;
  const own = await openLedger(place, noRules);
  try {
    const found = await own.meta.read('tenant_of');
    // A process that died here leaves an empty ledger without a mark.
    const isOurs = found === mark || (found === undefined && (!exists || (await isEmpty(own))));
    if (!isOurs) {
      const message = `the place of its ledger is taken by something else`;
      throw new DuctileError('TENANT_EXISTS', message, { place: nameOf(place) });
    }
    await own.meta.write('tenant_of', mark);
  } finally {
    await own.close();
  }
  await ledger.tenants.recordSchema(slug, { version: schemaVersion, error: null });
}

async function isEmpty(own: Ledger): Promise<boolean> {
  const [jobs, signals, directives] = await Promise.all([
    own.jobs.list({ limit: 1 }),
    own.signals.list({ limit: 1 }),
    own.directives.list({ limit: 1 }),
  ]);
  return jobs.length + signals.length + directives.length === 0;
}

function nameOf(place: ReturnType<typeof locateTenantLedger>): string {
  return place.kind === 'sqlite' ? place.path : place.schema;
}

function statusDirective(
  { ledger }: LedgerContext,
  tenants: Tenants,
  type: typeof suspendTenantType,
  { from, to }: { readonly from: TenantStatus; readonly to: TenantStatus },
): BoundDirective<TenantChoice> {
  return {
    ...type,
    async plan({ slug }) {
      const { status } = await requireTenant(ledger, slug);
      if (status === to) return [`It is ${to} already; nothing would change.`];
      if (status !== from) throw createStatusError(slug, status);
      return to === 'suspended'
        ? [`${slug} could do nothing new, and no job of it would start; running ones would go on.`]
        : [`Work of ${slug} would be accepted and started again.`];
    },
    async execute({ slug }) {
      const isMoved = await ledger.tenants.updateStatus(slug, [from], to);
      const { status } = await requireTenant(ledger, slug);
      if (!isMoved && status !== to) throw createStatusError(slug, status);
      return { slug, status };
    },
    after: async ({ slug }) => {
      // Waiting work may start now, here and on other hosts.
      if (to === 'active') await ledger.tenants.recordDue(slug, 'now');
      ledger.hint();
      tenants.soon();
    },
  };
}

function limitDirective(
  { ledger }: LedgerContext,
  tenants: Tenants,
): BoundDirective<TenantLimitParams> {
  return {
    ...limitTenantType,
    async plan({ slug, ...params }) {
      const { limits: before } = await requireTenant(ledger, slug);
      const after = mergeLimits(before, params);
      return [`${slug} would have ${describeLimits(after)}; it has ${describeLimits(before)}.`];
    },
    async execute({ slug, ...params }) {
      const { limits: before } = await requireTenant(ledger, slug);
      const after = mergeLimits(before, params);
      await ledger.tenants.updateLimits(slug, after);
      return { slug, limits: showLimits(after) };
    },
    after: () => {
      ledger.hint();
      tenants.soon();
    },
  };
}

function deleteDirective(context: LedgerContext, tenants: Tenants): BoundDirective<TenantDeletion> {
  const { ledger } = context;
  return {
    ...deleteTenantType,
    async plan({ slug }) {
      const { title } = await requireTenant(ledger, slug);
      return [
        `The tenant ${slug} (${title}) would be removed: ${await describeJobs(context, slug)}.`,
        'Its ledger, tokens, credentials and installations would be gone. This cannot be undone.',
      ];
    },
    async execute({ slug }, execution) {
      // An earlier execution may have deleted it and died before its end was recorded.
      if ((await ledger.tenants.find(slug)) === undefined) return { slug, deleted: true };
      await ledger.tenants.updateStatus(slug, ['creating', 'active', 'suspended'], 'deleting');
      ledger.hint();
      await tenants.block(slug);
      try {
        await awaitClosed(context, slug, execution);
        probe('tenant.before-removal');
        await removeLedger(locateTenantLedger(context.config.state, slug));
        probe('tenant.after-removal');
        await ledger.tenants.delete(slug);
      } finally {
        tenants.unblock(slug);
      }
      return { slug, deleted: true };
    },
  };
}

/** Describes the jobs of a tenant for the plan. A ledger that can't be read can still be deleted. */
async function describeJobs({ config }: LedgerContext, slug: string): Promise<string> {
  const place = locateTenantLedger(config.state, slug);
  try {
    if ((await readSchemaVersion(place)) === undefined) return 'it has no ledger yet';
    const own = await openReadonlyLedger(place);
    try {
      const { ready, delayed, running } = await own.jobs.countQueue();
      return `${ready + delayed} jobs wait in it, ${running} run`;
    } finally {
      await own.close();
    }
  } catch (error) {
    return `what is in it cannot be told (${messageOf(error)})`;
  }
}

/** Waits until all hosts have closed the tenant. A host without a heartbeat counts as dead. */
async function awaitClosed(
  { config }: LedgerContext,
  slug: string,
  { signal }: DirectiveExecution,
): Promise<void> {
  const place = locateTenantLedger(config.state, slug);
  const deadline = performance.now() + limits.tenantLeaveMs;
  for (;;) {
    const host = await findLiveHost(place, config.service.reapAfterMs);
    if (host === undefined) return;
    if (performance.now() > deadline) {
      const message = `${slug} is still in use by a process on ${host}`;
      throw new DuctileError('TENANT_UNAVAILABLE', message, {
        hint: 'Stop that process, or wait until it is known to be dead; then delete it again.',
      });
    }
    await sleep(CHECK_MS, undefined, { signal });
  }
}

async function requireTenant(ledger: Ledger, slug: string): Promise<TenantRow> {
  const found = await ledger.tenants.find(slug);
  if (found !== undefined) return found;
  throw new DuctileError('TENANT_NOT_FOUND', `there is no tenant ${slug}`, { place: 'slug' });
}

function createStatusError(slug: string, status: TenantStatus): DuctileError {
  return new DuctileError('TENANT_UNAVAILABLE', `${slug} is ${status}`, { place: 'slug' });
}

const noLimits: TenantLimits = {
  workers: null,
  queueLength: null,
  signalsPerMinute: null,
  storageBytes: null,
};

/** Changes the limits that are named. */
function mergeLimits(before: TenantLimits, params: LimitParams): TenantLimits {
  const pick = (given: number | null | undefined, was: number | null) =>
    given === undefined ? was : given;
  return {
    workers: pick(params.workers, before.workers),
    queueLength: pick(params.queue_length, before.queueLength),
    signalsPerMinute: pick(params.signals_per_minute, before.signalsPerMinute),
    storageBytes: pick(params.storage_bytes, before.storageBytes),
  };
}

export function showLimits(given: TenantLimits) {
  return {
    workers: given.workers,
    queue_length: given.queueLength,
    signals_per_minute: given.signalsPerMinute,
    storage_bytes: given.storageBytes,
  } satisfies JsonObject;
}

function describeLimits(given: TenantLimits): string {
  const set = Object.entries(showLimits(given)).filter(([, value]) => value !== null);
  return set.length === 0 ? 'no limits' : set.map(([name, value]) => `${name} ${value}`).join(', ');
}
