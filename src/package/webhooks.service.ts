import type { LedgerContext } from '../engine/context.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';
import { formatCredentialRef } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { describeInstallation, type InstalledPackage } from '../config/installed.ts';
import type { InstallationRow, WebhookMoves } from './types.ts';
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

/** What an installation is to be: its webhooks as they were, and as they will be. */
export interface InstallationWebhooks {
  /** Undefined for what was not there before. */
  readonly row: InstallationRow | undefined;
  /** In the words of the manifest, with their final ids; none for what ends. */
  readonly webhooks: readonly JsonObject[];
  readonly isOn: boolean;
}

/** What a package says of one of its webhooks. */
interface Packaged {
  readonly id: string;
  readonly settings: JsonObject;
  readonly credential: string | undefined;
}

/** Throws when a webhook of an installation could not be opened beside those that there are. */
export async function checkInstallationWebhooks(
  change: InstallationWebhooks,
  context: LedgerContext,
  intake: WebhookIntake,
): Promise<void> {
  for (const [{ id, settings, credential }, row] of await pair(change, context)) {
    await requireCredential(credential, intake);
    if (credential !== undefined && change.isOn) {
      await checkWebhookSecret(
        { id, settings },
        { secret: formatCredentialRef(credential) },
        intake.store,
      );
    }
    // Who makes the secrets themselves must be asked for one.
    if (credential === undefined) makeSecret(authModeOf(settings));
    if (row !== undefined && !isOwn(id, change)) throw describeTakenId(id);
  }
}

/** Throws what is wrong with them among all that would be in force then. */
export function refuseTargets(one: InstalledPackage, next: Blueprint): void {
  for (const { id, settings } of one.provides.webhooks.map(toPackaged)) {
    try {
      checkWebhookEntry(id, settings, [{ secret: formatCredentialRef('secret') }], next);
    } catch (thrown) {
      if (!(thrown instanceof DuctileError)) throw thrown;
      const { message, hint } = thrown;
      const words = `its webhook ${id} does not fit: ${message}`;
      throw new DuctileError('PACKAGE_REFUSED', words, { place: describeInstallation(one), hint });
    }
  }
}

/**
 * What is to be written with an installation, and the secrets that were made for it, which nobody sees
 * again. What is as it was keeps its secret.
 */
export async function draftWebhookMoves(
  change: InstallationWebhooks,
  context: LedgerContext,
): Promise<{ readonly webhooks: WebhookMoves; readonly reveal?: JsonObject }> {
  const { vault, ledger, tenant } = context;
  const pairs = await pair(change, context);
  if (pairs.length > 0) await guardFirstKey(vault, ledger);
  const opened: WebhookMoves['opened'][number][] = [];
  const changed: WebhookMoves['changed'][number][] = [];
  const secrets: JsonObject = {};
  for (const [packaged, row] of pairs) {
    const { id, credential } = packaged;
    const settings = JSON.stringify(change.isOn ? packaged.settings : off(packaged.settings));
    const isKept = row !== undefined && keepsSecret(packaged, row, change);
    const kept: WebhookSecret = {
      secret: toCredentialRef(credential) ?? makeSecret(authModeOf(packaged.settings)),
    };
    if (!isKept && credential === undefined) secrets[id] = kept.secret;
    const sealed = isKept ? undefined : sealSecrets(id, [kept], vault);
    if (row !== undefined) {
      changed.push({ id, settings, ...(sealed === undefined ? {} : { sealed }) });
      continue;
    }
    if (tenant !== undefined && !(await tenant.addKey('hook', id))) throw describeTakenId(id);
    opened.push({ id, settings, sealed: sealed ?? null });
  }
  const left = new Set(pairs.map(([{ id }]) => id));
  const closed = idsOf(change.row).filter((id) => !left.has(id));
  const webhooks = { opened, changed, closed };
  return Object.keys(secrets).length === 0 ? { webhooks } : { webhooks, reveal: { secrets } };
}

/** What this process knows of them is as the ledger has it. */
export async function refreshWebhooks(
  { tenant }: LedgerContext,
  intake: WebhookIntake,
  { closed_webhooks: closed }: JsonObject,
): Promise<void> {
  await intake.store.refresh();
  for (const id of Array.isArray(closed) ? closed : []) {
    if (typeof id === 'string') await tenant?.dropKey('hook', id);
  }
}

async function pair(
  { webhooks }: InstallationWebhooks,
  { ledger }: LedgerContext,
): Promise<(readonly [Packaged, WebhookRow | undefined])[]> {
  const all = webhooks.map(toPackaged);
  return await Promise.all(
    all.map(async (one) => [one, await ledger.webhooks.find(one.id)] as const),
  );
}

function toPackaged({ id, credential, ...settings }: JsonObject): Packaged {
  return {
    id: typeof id === 'string' ? id : '',
    settings,
    credential: typeof credential === 'string' ? nameCredential(credential) : undefined,
  };
}

function isOwn(id: string, { row }: InstallationWebhooks): boolean {
  return idsOf(row).includes(id);
}

function idsOf(row: InstallationRow | undefined): string[] {
  if (row === undefined) return [];
  return readProvides(row.provisioned).webhooks.map((webhook) => toPackaged(webhook).id);
}

/** Another mode needs another secret, and another credential is one. */
function keepsSecret(
  now: Packaged,
  row: WebhookRow,
  { row: installation }: InstallationWebhooks,
): boolean {
  const all = installation === undefined ? [] : readProvides(installation.provisioned).webhooks;
  const before = all.map(toPackaged).find(({ id }) => id === now.id);
  const isSame = before !== undefined && before.credential === now.credential;
  return isSame && authModeOf(before.settings) === authModeOf(now.settings) && row.sealed !== null;
}

function off(settings: JsonObject): JsonObject {
  return { ...settings, enabled: false };
}
