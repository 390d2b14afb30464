import * as z from 'zod';
import { noRules } from '../ledger/rules.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { DuctileError, messageOf } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { schemaVersion } from '../ledger/migrate.ts';
import { openLedger } from '../ledger/open.ts';
import { openReadonlyLedger, readSchemaVersion } from '../ledger/open-readonly.ts';
import { findLiveHost, locateTenantLedger } from '../ledger/tenant-location.ts';
import type { TenantLimits, TenantRow, TenantStatus } from './tenants.ts';
import type { DirectiveExecution } from '../directive/define.service.ts';
import type { LedgerContext } from '../engine/context.ts';

/** The pause between two checks whether other hosts have closed the tenant. */
const CHECK_MS = 200;

/** Refuses an existing tenant, unless it is incomplete because its process died. */
export async function refuseTakenTenant({ ledger }: LedgerContext, slug: string): Promise<void> {
  const known = await ledger.tenants.find(slug);
  if (known === undefined || known.status === 'creating') return;
  throw new DuctileError('TENANT_EXISTS', `tenant ${slug} already exists`, { place: 'slug' });
}

/** Creates the ledger of a tenant. Throws if another ledger exists under its name. */
export async function createTenantLedger(
  { ledger, config }: LedgerContext,
  slug: string,
): Promise<void> {
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
      const message = `the location of its database is already in use`;
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

/** Describes the jobs of a tenant for the plan. A ledger that can't be read can still be deleted. */
export async function describeTenantJobs({ config }: LedgerContext, slug: string): Promise<string> {
  const place = locateTenantLedger(config.state, slug);
  try {
    if ((await readSchemaVersion(place)) === undefined) return 'it has no database yet';
    const own = await openReadonlyLedger(place);
    try {
      const { ready, delayed, running } = await own.jobs.countQueue();
      return `it has ${ready + delayed} queued and ${running} running jobs`;
    } finally {
      await own.close();
    }
  } catch (error) {
    return `its jobs cannot be counted (${messageOf(error)})`;
  }
}

/** Waits until all hosts have closed the tenant. A host without a heartbeat counts as dead. */
export async function awaitTenantClosed(
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
      const message = `tenant ${slug} is still in use by a process on ${host}`;
      throw new DuctileError('TENANT_UNAVAILABLE', message, {
        hint: 'Stop that process, or wait until its heartbeat expires. Then repeat the request.',
      });
    }
    await sleep(CHECK_MS, undefined, { signal });
  }
}

export async function requireTenant(ledger: Ledger, slug: string): Promise<TenantRow> {
  const found = await ledger.tenants.find(slug);
  if (found !== undefined) return found;
  throw new DuctileError('TENANT_NOT_FOUND', `there is no tenant ${slug}`, { place: 'slug' });
}

export function createStatusError(slug: string, status: TenantStatus): DuctileError {
  return new DuctileError('TENANT_UNAVAILABLE', `tenant ${slug} is ${status}`, { place: 'slug' });
}

export const noLimits: TenantLimits = {
  workers: null,
  queueLength: null,
  signalsPerMinute: null,
  storageBytes: null,
};

/** The limits that a request names. */
type LimitParams = z.output<z.ZodObject<typeof tenantLimitFields>>;

/** Changes the limits that are named. */
export function mergeLimits(before: TenantLimits, params: LimitParams): TenantLimits {
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

export function describeLimits(given: TenantLimits): string {
  const set = Object.entries(showLimits(given)).filter(([, value]) => value !== null);
  return set.length === 0 ? 'no limits' : set.map(([name, value]) => `${name} ${value}`).join(', ');
}

/** The limits of a tenant; null for no limit. */
export const tenantLimitFields = {
  workers: z.int().min(1).nullable().optional().describe('maximum number of concurrent jobs'),
  queue_length: z
    .int()
    .min(1)
    .nullable()
    .optional()
    .describe('maximum number of queued jobs, ready or delayed'),
  signals_per_minute: z
    .int()
    .min(1)
    .nullable()
    .optional()
    .describe('maximum number of signals per minute'),
  storage_bytes: z
    .int()
    .min(1)
    .nullable()
    .optional()
    .describe('maximum size of its database, in bytes'),
};

/** The slug is part of a file name and of a schema name. */
export const tenantSlug = z
  .string()
  .regex(new RegExp(`^[a-z][a-z0-9_]{0,${limits.tenantSlugCharsMax - 1}}$`), {
    error:
      `must be at most ${limits.tenantSlugCharsMax} lowercase letters, digits and _, ` +
      'and start with a letter',
  })
  .refine((slug) => slug !== 'root', { error: 'is reserved' });
