import * as z from 'zod';
import { count, duration, flag, strictSection, nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { checkEventFields, eventFields, toEventRules, type EventRules } from './event-type.ts';
import {
  authFields,
  checkAuth,
  secretsOf,
  toScheme,
  secretKeyOf,
  type ReplayMode,
} from './auth-settings.ts';
import {
  checkTargetFields,
  targetFields,
  toTarget,
  webhookDefaults,
  type ReportField,
  type WebhookTarget,
} from './target.ts';
import type { Scheme } from './verify/verify.ts';
import { parseCredentialRef, credentialName } from '../base/credential-ref.ts';

/** A validated webhook. It has no secrets, so that it can be cached and shown. */
export interface Webhook {
  readonly id: string;
  readonly title: string;
  readonly description: string;
  readonly enabled: boolean;
  readonly target: WebhookTarget;
  readonly auth: Scheme;
  readonly replay: ReplayMode;
  readonly eventRules: EventRules;
  readonly maxBodyBytes: number;
  readonly ratePerMinute: number;
  /** How long a sender waits for the result of its delivery. Zero doesn't wait. */
  readonly waitMs: number;
}

/** The response that a sender gets: that its delivery was accepted, or its result. */
export const webhookResponses = ['accepted', 'result'] as const;

/** The keys of the response. Webhooks and endpoints share them. */
export const respondFields = {
  respond: z.enum(webhookResponses).default(webhookDefaults.respond),
  respond_within: duration({ minMs: 1000, maxMs: limits.webhookRespondMsMax }).optional(),
};

type RespondFields = z.output<z.ZodObject<typeof respondFields>>;

/** The settings of a webhook. */
export const webhookFields = {
  id: z
    .string()
    .max(limits.webhookIdCharsMax)
    .regex(/^[a-z0-9][a-z0-9_-]*$/, 'must be lowercase letters, digits, - and _'),
  title: nonBlankText().max(limits.webhookTitleCharsMax),
  description: z.string().max(limits.webhookDescriptionCharsMax).default(''),
  enabled: flag().default(true),
  max_body_bytes: count(1, limits.webhookBodyBytesMax).default(webhookDefaults.maxBodyBytes),
  rate_limit_per_minute: count(1, limits.webhookRateMax).default(webhookDefaults.ratePerMinute),
  ...respondFields,
  ...targetFields,
  ...authFields,
  ...eventFields,
};

/** A webhook as written, with the keys of the original program and its secrets. */
export const webhookEntrySchema = strictSection(webhookFields).superRefine(checkWebhookFields, {
  when: ({ issues }) => issues.length === 0,
});

type WebhookEntry = z.output<typeof webhookEntrySchema>;

/** Reports contradictions between keys. */
function checkWebhookFields(entry: WebhookEntry, context: z.RefinementCtx): void {
  const report: ReportField = (key, message, hint) => {
    context.addIssue({ code: 'custom', path: key.split('.'), message, params: { hint } });
  };
  checkTargetFields(entry, report);
  checkRespond(entry, report);
  if (entry.respond === 'result' && entry.plugin === undefined && entry.pipeline === undefined) {
    report('respond', 'result is only for plugin and pipeline', 'Leave it out.');
  }
  checkAuth(entry, report);
  // A scheme that lacks something has been reported, and can't be built.
  const isWhole = entry.auth_mode !== 'signed' || entry.signed !== undefined;
  if (isWhole) checkEventFields(entry, toScheme(entry), report);
}

export interface KnownWebhook {
  readonly webhook: Webhook;
  /** Any of them is valid. A bearer webhook without secrets uses the global token. */
  readonly secrets: readonly string[];
}

export function toWebhook(entry: WebhookEntry): KnownWebhook {
  const webhook: Webhook = {
    id: entry.id,
    title: entry.title,
    description: entry.description,
    enabled: entry.enabled,
    target: toTarget(entry),
    auth: toScheme(entry),
    replay: entry.replay,
    eventRules: toEventRules(entry),
    maxBodyBytes: entry.max_body_bytes,
    ratePerMinute: entry.rate_limit_per_minute,
    waitMs: waitMsOf(entry),
  };
  return { webhook, secrets: secretsOf(entry) };
}

export function checkRespond(
  { respond, respond_within: within }: RespondFields,
  report: ReportField,
) {
  if (respond === 'result' || within === undefined) return;
  report('respond_within', 'is only for respond result', 'Leave it out.');
}

export function waitMsOf({ respond, respond_within: within }: RespondFields): number {
  return respond === 'result' ? (within ?? webhookDefaults.waitMs) : 0;
}

/** The keys of the secret, which must not be in a package. */
export const secretKeys: readonly string[] = ['token', 'hmac_secret'];

const fields = Object.fromEntries(
  Object.entries(webhookFields).filter(([key]) => !secretKeys.includes(key)),
) as Omit<typeof webhookFields, 'token' | 'hmac_secret'>;

/** Accepts `credential:NAME`, as everywhere in the configuration of an installation. */
export function nameCredential(value: string): string {
  return parseCredentialRef(value) ?? value;
}

/** Stands in for the secret, so that the rest can be checked. */
const PLACEHOLDER = 'credential:secret';

/** A webhook of a package. Its secret is generated, or is the named credential. */
export const packagedWebhookSchema = strictSection({
  ...fields,
  credential: z
    .string()
    .refine((value) => credentialName.test(nameCredential(value)), 'must name a credential')
    .optional(),
}).superRefine(
  (entry, context) => {
    checkWebhookFields({ ...entry, [secretKeyOf(entry.auth_mode)]: [PLACEHOLDER] }, context);
  },
  { when: ({ issues }) => issues.length === 0 },
);
