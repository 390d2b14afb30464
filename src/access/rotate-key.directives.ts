import * as z from 'zod';
import { DuctileError, messageOf } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { probe } from '../base/probe.ts';
import { isSealedUnbound, purposes } from '../base/seal.ts';
import type { DirectiveExecution } from '../directive/define.service.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { textIn } from '../operation/request-directive.ts';
import { keyErrors } from './credential.operations.ts';
import type { ResealedRow, SealCount, SealedRow } from './types.ts';
import type { Vault } from './vault.ts';
import { guardFirstKey } from './vault.service.ts';

const ROTATE = 'credential.rotate';

/**
 * After a crash it creates no second key, and reseals only what is still sealed with the old ones. Only
 * the root ledger makes keys, which all ledgers share.
 */
export const rotateKeyDirective = defineDirective({
  type: ROTATE,
  summary: 'Reseal all stored secrets with a new key.',
  scope: '*',
  role: 'owner',
  isForRoot: true,
  isRepeatable: true,
  isResumable: true,
  params: z.strictObject({}),
  sameness: () => 'each',
  target: () => '',
  async plan(context) {
    const counts = await context.ledger.seals.count();
    const slugs = await listTenantSlugs(context);
    return [
      ...planKey(context),
      `Secrets to reseal: credentials ${sumCounts(counts, 'credentials')}, ` +
        `signals ${sumCounts(counts, 'payloads')}, webhooks ${sumCounts(counts, 'webhooks')}.`,
      ...(slugs.length === 0 ? [] : [`Tenants to process afterwards: ${slugs.length}.`]),
      'Old backups need the old keys. Keep these keys as long as the backups.',
    ];
  },
  async execute(context, _params, execution) {
    const { ledger, vault } = context;
    await guardFirstKey(vault, ledger);
    if (context.tenant === undefined) vault.renew(`directive ${execution.directiveId}`);
    probe('rotate.after-key');
    const counts = await resealAll(context, execution);
    const rotated = await rotateTenants(context, execution);
    return { key_id: vault.keyId, ...counts, ...rotated };
  },
  operation: {
    name: 'credential.rotate-key',
    effect: 'write',
    output: z.object({
      key_id: z.string().describe('key that seals secrets from now on'),
      resealed: z
        .int()
        .describe('credentials, signal payloads and webhook secrets that were resealed'),
      left: z.int().describe('secrets that could not be opened and are unchanged'),
      left_reason: z.string().nullable(),
      tenants: z.int().describe('tenants that were processed, including those that failed'),
      tenants_failed: z
        .array(z.string())
        .describe('tenants that failed; their secrets keep the old keys'),
      directive_id: directiveIdField,
    }),
    errors: [...keyErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
    http: { method: 'POST', path: '/credentials/rotate-key' },
    cli: { examples: ['ductile credential rotate-key --dry-run', 'ductile credential rotate-key'] },
    toOutput: (_context, { result }) => {
      const { left_reason: reason, tenants_failed: failed } = result;
      return {
        key_id: textIn(result, 'key_id'),
        resealed: Number(result['resealed']),
        left: Number(result['left']),
        left_reason: typeof reason === 'string' ? reason : null,
        tenants: Number(result['tenants'] ?? 0),
        tenants_failed: Array.isArray(failed) ? failed.map(String) : [],
      };
    },
  },
});

function planKey({ vault, tenant }: DirectiveContext): string[] {
  if (tenant !== undefined) return ['The newest key of the service will seal secrets from now on.'];
  if (vault.place.includes('DUCTILE_')) {
    return [`The first key in ${vault.place} will seal secrets from now on.`];
  }
  return [
    `A new key will be added to ${vault.place}, before the others.`,
    'Other hosts that use the same database need a copy of that file.',
  ];
}

/** Reseals in batches, one commit each. Texts that can't be opened are left as they are and counted. */
async function resealAll(
  { ledger, vault }: DirectiveContext,
  { signal }: Pick<DirectiveExecution, 'signal'>,
): Promise<{ resealed: number; left: number; left_reason: string | null }> {
  const { keyId } = vault;
  const result = { resealed: 0, left: 0, left_reason: null as string | null };
  for (const old of await ledger.seals.count()) {
    let after: SealedRow | undefined;
    for (;;) {
      if (signal.aborted) throw new DuctileError('STOPPING', 'the service is stopping');
      const rows = await ledger.seals.list(old.keyId, after, limits.bulkStepJobs);
      if (rows.length === 0) break;
      after = rows.at(-1);
      const changes = rows.flatMap((row): ResealedRow[] => {
        if (old.keyId === keyId && !isSealedUnbound(row.sealed)) return [];
        try {
          return [resealText(row, vault)];
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

function resealText(row: SealedRow, vault: Vault): ResealedRow {
  const purpose = purposes[row.kind](row.id);
  return { ...row, after: vault.seal(vault.open(row.sealed, purpose), purpose) };
}

/**
 * Rotates the keys of tenants, each by a directive in its own ledger. If one fails, its secrets keep
 * their old keys, which can still open them.
 */
async function rotateTenants(
  context: DirectiveContext,
  execution: DirectiveExecution,
): Promise<JsonObject> {
  const slugs = await listTenantSlugs(context);
  const failed: string[] = [];
  for (const slug of slugs) {
    if (execution.signal.aborted) throw new DuctileError('STOPPING', 'the service is stopping');
    const isDone = await rotateTenant(context, slug, execution).catch(() => false);
    if (!isDone) failed.push(slug);
  }
  return slugs.length === 0 ? {} : { tenants: slugs.length, tenants_failed: failed };
}

async function rotateTenant(
  { services: { tenants } }: DirectiveContext,
  slug: string,
  { actor, directiveId }: DirectiveExecution,
): Promise<boolean> {
  const visit = await tenants?.visit(slug);
  if (visit === undefined) return false;
  try {
    // The tenant may have a token of the same name as the caller's, which is another one.
    const by = `operator:${actor}`;
    const { status } = await visit.engine.direct({
      type: ROTATE,
      params: {},
      actor: by,
      causationId: directiveId,
      idempotencyKey: `rotate:${directiveId}`,
    });
    return status === 'completed';
  } finally {
    visit.end();
  }
}

async function listTenantSlugs({
  ledger,
  services: { tenants },
}: DirectiveContext): Promise<string[]> {
  if (tenants === undefined) return [];
  const rows = await ledger.tenants.list();
  return rows
    .filter(({ status }) => status === 'active' || status === 'suspended')
    .map(({ slug }) => slug);
}

function sumCounts(
  counts: readonly SealCount[],
  what: 'credentials' | 'payloads' | 'webhooks',
): number {
  return counts.reduce((sum, count) => sum + count[what], 0);
}
