import * as z from 'zod';
import { credentialName } from '../base/credential-ref.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/type.ts';

const id = z
  .string()
  .max(limits.hookIdCharsMax)
  .regex(/^[a-z0-9][a-z0-9_-]*$/, 'must be lowercase letters, digits, - and _');

/** Words behind `/webhooks/` that stand for a list of something else. */
export const reservedIds: readonly string[] = ['deliveries', 'endpoints'];

const newId = id.refine((name) => !reservedIds.includes(name), {
  error: `must be another word: ${reservedIds.map((name) => `/webhooks/${name}`).join(' and ')} are lists`,
});

/** Params are on record, so secrets are not among them: they are made, credentials, or come beside. */
const settings = z
  .record(z.string(), z.unknown())
  .refine((given) => !('token' in given) && !('hmac_secret' in given), {
    error: 'must not hold the secret: name a credential, or one is made',
  }) as unknown as z.ZodType<JsonObject>;

const credential = z.string().regex(credentialName, 'must name a credential').optional();

/** Of a secret that the caller brought: it tells nothing of it, and whether it is the same one. */
const fingerprint = z.string().min(1).optional();

export interface NewWebhook {
  readonly id?: string | undefined;
  /** Its entry, with the keys of the configuration of webhooks. */
  readonly settings: JsonObject;
  /** The credential that is its secret. */
  readonly credential?: string | undefined;
  /** Of the secret that came beside. */
  readonly fingerprint?: string | undefined;
}

export interface WebhookEdit {
  readonly id: string;
  /** Keys that are to be other than they are; null for as if they were not there. */
  readonly changes: JsonObject;
}

export interface WebhookRotation {
  readonly id: string;
  readonly credential?: string | undefined;
  /** Of the secret that came beside. */
  readonly fingerprint?: string | undefined;
  /** How long the secrets of now stay good. */
  readonly keep_old_ms?: number | undefined;
}

export interface WebhookChoice {
  readonly id: string;
}

export interface WebhookTest {
  readonly id: string;
  /** The digest of the payload, which goes beside the params because it may hold secrets. */
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
    keep_old_ms: z.int().min(0).max(limits.hookKeepOldMsMax).optional(),
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
  // The response of the webhook is for the caller.
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
