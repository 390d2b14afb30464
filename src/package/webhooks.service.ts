import type { LedgerContext } from '../engine/context.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';
import { formatCredentialRef } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { describeInstallation, type InstalledPackage } from '../config/installed.ts';
import type { InstallationRow, WebhookChanges } from './types.ts';
import type { WebhookRow } from '../webhook/types.ts';
import { readProvides } from './package.ts';
import { nameCredential } from '../webhook/webhook.ts';
import {
  describeTakenId,
  authModeOf,
  toCredentialRef,
  requireCredential,
  sealSecrets,
} from '../webhook/change.service.ts';
import type { Blueprint } from '../engine/generation.ts';
import { checkWebhookEntry, checkWebhookSecret } from '../webhook/check-entry.service.ts';
import { makeSecret } from '../webhook/secrets.service.ts';
import type { WebhookSecret } from '../webhook/store.service.ts';
import { guardFirstKey } from '../access/vault.service.ts';

/** A change of an installation and its webhooks. */
export interface WebhooksRequest {
  /** The installation before the change; undefined for a new one. */
  readonly row: InstallationRow | undefined;
  /** The webhooks after the change, in the format of the manifest, with their final ids. */
  readonly webhooks: readonly JsonObject[];
  readonly isOn: boolean;
}

/** A webhook of a package. */
interface PackageWebhook {
  readonly id: string;
  readonly settings: JsonObject;
  readonly credential: string | undefined;
}

/** Refuses webhooks whose id is in use or whose secret is unusable. */
export async function refuseWebhooks(
  change: WebhooksRequest,
  context: LedgerContext,
  intake: WebhookIntake,
): Promise<void> {
  for (const [{ id, settings, credential }, row] of await pairWithRows(change, context)) {
    await requireCredential(credential, intake);
    if (credential !== undefined && change.isOn) {
      await checkWebhookSecret(
        { id, settings },
        { secret: formatCredentialRef(credential) },
        intake.store,
      );
    }
    // This throws for providers that issue the secret themselves: it must be a credential.
    if (credential === undefined) makeSecret(authModeOf(settings));
    if (row !== undefined && !isProvided(id, change)) throw describeTakenId(id);
  }
}

/** Refuses webhooks that don't fit the configuration with the installation. */
export function refuseWebhookTargets(one: InstalledPackage, next: Blueprint): void {
  for (const { id, settings } of one.provides.webhooks.map(toPackageWebhook)) {
    try {
      checkWebhookEntry(id, settings, [{ secret: formatCredentialRef('secret') }], next);
    } catch (thrown) {
      if (!(thrown instanceof DuctileError)) throw thrown;
      const { message, hint } = thrown;
      const words = `its webhook ${id} is invalid: ${message}`;
      throw new DuctileError('PACKAGE_REFUSED', words, { place: describeInstallation(one), hint });
    }
  }
}

/**
 * Prepares the webhook rows of an installation, and creates secrets, which are only shown now. A webhook
 * with the same mode and credential keeps its secret.
 */
export async function prepareWebhooks(
  change: WebhooksRequest,
  context: LedgerContext,
): Promise<{ readonly webhooks: WebhookChanges; readonly reveal?: JsonObject }> {
  const { vault, ledger, tenant } = context;
  const pairs = await pairWithRows(change, context);
  if (pairs.length > 0) await guardFirstKey(vault, ledger);
  const opened: WebhookChanges['opened'][number][] = [];
  const changed: WebhookChanges['changed'][number][] = [];
  const secrets: JsonObject = {};
  for (const [webhook, row] of pairs) {
    const { id, credential } = webhook;
    const settings = JSON.stringify(change.isOn ? webhook.settings : disable(webhook.settings));
    const isKept = row !== undefined && keepsSecret(webhook, row, change);
    const secret: WebhookSecret = {
      secret: toCredentialRef(credential) ?? makeSecret(authModeOf(webhook.settings)),
    };
    if (!isKept && credential === undefined) secrets[id] = secret.secret;
    const sealed = isKept ? undefined : sealSecrets(id, [secret], vault);
    if (row !== undefined) {
      changed.push({ id, settings, ...compact({ sealed }) });
      continue;
    }
    if (tenant !== undefined && !(await tenant.addKey('hook', id))) throw describeTakenId(id);
    opened.push({ id, settings, sealed: sealed ?? null });
  }
  const remaining = new Set(pairs.map(([{ id }]) => id));
  const closed = listIds(change.row).filter((id) => !remaining.has(id));
  const webhooks = { opened, changed, closed };
  return Object.keys(secrets).length === 0 ? { webhooks } : { webhooks, reveal: { secrets } };
}

/** Applies committed changes of webhooks in this process, and removes the keys of closed ones. */
export async function applyWebhooks(
  { tenant }: LedgerContext,
  intake: WebhookIntake,
  { closed_webhooks: closed }: JsonObject,
): Promise<void> {
  await intake.store.refresh();
  for (const id of Array.isArray(closed) ? closed : []) {
    if (typeof id === 'string') await tenant?.dropKey('hook', id);
  }
}

async function pairWithRows(
  { webhooks }: WebhooksRequest,
  { ledger }: LedgerContext,
): Promise<(readonly [PackageWebhook, WebhookRow | undefined])[]> {
  const all = webhooks.map(toPackageWebhook);
  return await Promise.all(
    all.map(async (one) => [one, await ledger.webhooks.find(one.id)] as const),
  );
}

function toPackageWebhook({ id, credential, ...settings }: JsonObject): PackageWebhook {
  return {
    id: typeof id === 'string' ? id : '',
    settings,
    credential: typeof credential === 'string' ? nameCredential(credential) : undefined,
  };
}

function isProvided(id: string, { row }: WebhooksRequest): boolean {
  return listIds(row).includes(id);
}

function listIds(row: InstallationRow | undefined): string[] {
  if (row === undefined) return [];
  return readProvides(row.provisioned).webhooks.map((webhook) => toPackageWebhook(webhook).id);
}

/** True if neither the mode nor the credential of a webhook changes. */
function keepsSecret(
  now: PackageWebhook,
  row: WebhookRow,
  { row: installation }: WebhooksRequest,
): boolean {
  const all = installation === undefined ? [] : readProvides(installation.provisioned).webhooks;
  const before = all.map(toPackageWebhook).find(({ id }) => id === now.id);
  const isSame = before !== undefined && before.credential === now.credential;
  return isSame && authModeOf(before.settings) === authModeOf(now.settings) && row.sealed !== null;
}

function disable(settings: JsonObject): JsonObject {
  return { ...settings, enabled: false };
}
