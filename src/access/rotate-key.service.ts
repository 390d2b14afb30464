import { DuctileError, messageOf } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { probe } from '../base/probe.ts';
import { isSealedUnbound } from '../base/seal.ts';
import { rotateKeyType } from './credential-directives.ts';
import type { Reseal, SealCount, SealedThing } from './types.ts';
import type { Asked, DirectiveDefinition, DirectRequest } from '../directive/define.service.ts';
import { guardFirstKey } from './vault.service.ts';
import { purposes, type Vault } from './vault.ts';
import type { Tenants } from '../tenant/tenants.ts';
import type { LedgerContext } from '../engine/context.ts';

/** The part of a tenant's engine that rotates its keys. */
interface RotatingEngine {
  direct(request: DirectRequest): Promise<{ readonly status: string }>;
}

/** Undefined for tenants: only the root ledger makes keys, which all ledgers share. */
type TenantVisitor = Pick<Tenants<RotatingEngine>, 'visit'>;

/** Begun anew after a crash it makes no second key, and finds only what is still under the old ones. */
export function rotateKeyDirective(
  context: LedgerContext,
  tenants: TenantVisitor | undefined,
): DirectiveDefinition<object> {
  const { ledger, vault } = context;
  return {
    ...rotateKeyType,
    async plan() {
      const counts = await ledger.seals.count();
      const others = await othersOf(context, tenants);
      return [
        ...planKey(context),
        `Credentials to be sealed anew: ${total(counts, 'credentials')}; payloads of signals: ` +
          `${total(counts, 'payloads')}; secrets of webhooks: ${total(counts, 'webhooks')}.`,
        ...(others.length === 0 ? [] : [`Tenants whose own follow: ${others.length}.`]),
        'The old keys still open old backups; keep them as long as those.',
      ];
    },
    async execute(_params, asked) {
      await guardFirstKey(vault, ledger);
      if (context.tenant === undefined) vault.renew(`directive ${asked.directiveId}`);
      probe('rotate.after-key');
      const counts = await resealAll(context, asked);
      const rotated = await rotateOthers(context, tenants, asked);
      return { key_id: vault.keyId, ...counts, ...rotated };
    },
  };
}

function planKey({ vault, tenant }: LedgerContext): string[] {
  if (tenant !== undefined) return ['The newest key of the process would seal from now on.'];
  if (vault.place.includes('DUCTILE_')) {
    return [`The first key of ${vault.place} would seal from now on.`];
  }
  return [
    `A new key would be put into ${vault.place}, before the others.`,
    'Other hosts that work on the same ledger need a copy of that file.',
  ];
}

/** Some at a time, each step one commit; what does not open is left as it is and counted. */
async function resealAll(
  { ledger, vault }: LedgerContext,
  { signal }: Pick<Asked, 'signal'>,
): Promise<{ resealed: number; left: number; left_reason: string | null }> {
  const { keyId } = vault;
  const result = { resealed: 0, left: 0, left_reason: null as string | null };
  for (const old of await ledger.seals.count()) {
    let after: SealedThing | undefined;
    for (;;) {
      if (signal.aborted) throw new DuctileError('STOPPING', 'the engine is stopping');
      const things = await ledger.seals.list(old.keyId, after, limits.bulkStepJobs);
      if (things.length === 0) break;
      after = things.at(-1);
      const changes = things.flatMap((thing): Reseal[] => {
        if (old.keyId === keyId && !isSealedUnbound(thing.sealed)) return [];
        try {
          return [resealOne(thing, vault)];
        } catch (error) {
          result.left += 1;
          result.left_reason ??= messageOf(error);
          return [];
        }
      });
      result.resealed += await ledger.seals.replace(changes);
      probe('rotate.after-step');
    }
  }
  return result;
}

function resealOne(thing: SealedThing, vault: Vault): Reseal {
  const purpose = purposes[thing.kind](thing.id);
  return { ...thing, after: vault.seal(vault.open(thing.sealed, purpose), purpose) };
}

/** Each in its own ledger and on its own record; one that fails keeps its old keys, which still open. */
async function rotateOthers(
  context: LedgerContext,
  tenants: TenantVisitor | undefined,
  asked: Asked,
): Promise<JsonObject> {
  const slugs = await othersOf(context, tenants);
  const failed: string[] = [];
  for (const slug of slugs) {
    if (asked.signal.aborted) throw new DuctileError('STOPPING', 'the engine is stopping');
    const isDone = await rotateOne(tenants, slug, asked).catch(() => false);
    if (!isDone) failed.push(slug);
  }
  return slugs.length === 0 ? {} : { tenants: slugs.length, tenants_failed: failed };
}

async function rotateOne(
  tenants: TenantVisitor | undefined,
  slug: string,
  { actor, directiveId }: Asked,
): Promise<boolean> {
  const visit = await tenants?.visit(slug);
  if (visit === undefined) return false;
  try {
    // A token of the root ledger is none of its own, though it may have one of that name.
    const by = `operator:${actor}`;
    const request = { type: rotateKeyType.type, params: {}, actor: by, causationId: directiveId };
    const idempotencyKey = `rotate:${directiveId}`;
    const { status } = await visit.engine.direct({ ...request, idempotencyKey });
    return status === 'completed';
  } finally {
    visit.end();
  }
}

async function othersOf(
  { ledger }: LedgerContext,
  tenants: TenantVisitor | undefined,
): Promise<string[]> {
  if (tenants === undefined) return [];
  const rows = await ledger.tenants.list();
  return rows
    .filter(({ status }) => status === 'active' || status === 'suspended')
    .map(({ slug }) => slug);
}

function total(
  counts: readonly SealCount[],
  what: 'credentials' | 'payloads' | 'webhooks',
): number {
  return counts.reduce((sum, count) => sum + count[what], 0);
}
