import * as z from 'zod';
import { credentialName } from '../base/credential-ref.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/directive.ts';

const id = z
  .string()
  .max(limits.webhookIdCharsMax)
  .regex(/^[a-z0-9][a-z0-9_-]*$/, 'must be lowercase letters, digits, - and _');

/** Ids that would collide with the paths of other lists below `/webhooks/`. */
export const reservedIds: readonly string[] = ['deliveries', 'endpoints'];

const newId = id.refine((name) => !reservedIds.includes(name), {
  error: `must be another word: ${reservedIds.map((name) => `/webhooks/${name}`).join(' and ')} are lists`,
});

/**
 * Params are recorded, so they hold no secrets. Secrets are generated, are credentials, or arrive
 * beside the params.
 */
const settings = z
  .record(z.string(), z.unknown())
  .refine((given) => !('token' in given) && !('hmac_secret' in given), {
    error: 'must not hold the secret: name a credential, or one is made',
  }) as unknown as z.ZodType<JsonObject>;

const credential = z.string().regex(credentialName, 'must name a credential').optional();

/**
 * Fingerprint of a secret that the caller brought. It reveals nothing, but shows whether the secret
 * is the same.
 */
const fingerprint = z.string().min(1).optional();

export interface NewWebhook {
  readonly id?: string | undefined;
  /** The entry, with the keys of the configuration of webhooks. */
  readonly settings: JsonObject;
  /** The credential that is its secret. */
  readonly credential?: string | undefined;
  /** Fingerprint of the secret that arrived beside the params. */
  readonly fingerprint?: string | undefined;
}

export interface WebhookEdit {
  readonly id: string;
  /** The keys to change. Null removes a key. */
  readonly changes: JsonObject;
}

export interface WebhookRotation {
  readonly id: string;
  readonly credential?: string | undefined;
  /** Fingerprint of the secret that arrived beside the params. */
  readonly fingerprint?: string | undefined;
  /** How long the current secrets stay valid. */
  readonly keep_old_ms?: number | undefined;
}

export interface WebhookChoice {
  readonly id: string;
}

export interface WebhookTest {
  readonly id: string;
  /** The digest of the payload, which arrives beside the params because it can hold secrets. */
  readonly fingerprint?: string | undefined;
}

export interface DeliveryChoice {
  readonly delivery_id: string;
}

const scope = 'webhooks:rw';

export const createWebhookType: DirectiveType<NewWebhook> = {
  type: 'webhook.create',
  summary: 'Open a webhook: a place where strangers may deliver, once they prove who they are.',
  scope,
  role: 'admin',
  isImmediate: true,
  params: z.strictObject({ id: newId.optional(), settings, credential, fingerprint }),
  sameness: () => 'each',
  target: (params) => params.id ?? '',
};

export const updateWebhookType: DirectiveType<WebhookEdit> = {
  type: 'webhook.update',
  summary: 'Change what a webhook does, or how its deliveries are verified.',
  scope,
  role: 'admin',
  params: z.strictObject({ id, changes: settings }),
  sameness: () => 'each',
  target: (params) => params.id,
};

export const rotateWebhookType: DirectiveType<WebhookRotation> = {
  type: 'webhook.rotate',
  summary: 'Put another secret in the place of the one that a webhook has.',
  scope,
  role: 'admin',
  isImmediate: true,
  params: z.strictObject({
    id,
    credential,
    fingerprint,
    keep_old_ms: z.int().min(0).max(limits.webhookOldSecretMsMax).optional(),
  }),
  sameness: () => 'each',
  target: (params) => params.id,
};

export const deleteWebhookType: DirectiveType<WebhookChoice> = {
  type: 'webhook.delete',
  summary: 'Close a webhook; what is delivered to it from then on is not found.',
  lasting: 'Its secret is gone for good.',
  scope,
  role: 'admin',
  params: z.strictObject({ id }),
  sameness: () => 'each',
  target: (params) => params.id,
};

export const testWebhookType: DirectiveType<WebhookTest> = {
  type: 'webhook.test',
  summary: 'Deliver a test to a webhook, signed as its sender would sign it.',
  lasting: 'What it starts cannot be undone; jobs that have not started can be cancelled.',
  scope,
  role: 'admin',
  // The caller needs the response of the webhook.
  isImmediate: true,
  params: z.strictObject({ id }),
  sameness: () => 'each',
  target: (params) => params.id,
};

export const replayDeliveryType: DirectiveType<DeliveryChoice> = {
  type: 'webhook.replay',
  summary: 'Let a delivery be handled once more, by what its webhook starts now.',
  lasting: 'What it starts cannot be undone; jobs that have not started can be cancelled.',
  scope,
  role: 'admin',
  params: z.strictObject({ delivery_id: z.string().min(1) }),
  sameness: () => 'each',
  target: (params) => params.delivery_id,
};
