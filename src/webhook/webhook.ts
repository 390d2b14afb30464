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
import { checkTarget, targetFields, toTarget, usual, type Report, type Target } from './target.ts';
import type { Scheme } from './verify/scheme.ts';
import { parseCredentialRef, credentialName } from '../base/credential-ref.ts';

/** A webhook, ready to be used. Its secrets are not in it, so that it can be kept and shown. */
export interface Hook {
  readonly id: string;
  readonly title: string;
  readonly description: string;
  readonly enabled: boolean;
  readonly target: Target;
  readonly auth: Scheme;
  readonly replay: ReplayMode;
  readonly eventRules: EventRules;
  readonly maxBodyBytes: number;
  readonly ratePerMinute: number;
  /** How long a sender is kept on the line for what its delivery came to; not at all when zero. */
  readonly waitMs: number;
}

/** What a sender is told: that its delivery was taken, or what came of it. */
export const responses = ['accepted', 'result'] as const;

/** The keys that say so, of webhooks and of endpoints. */
export const respondFields = {
  respond: z.enum(responses).default(usual.respond),
  respond_within: duration({ minMs: 1000, maxMs: limits.hookRespondMsMax }).optional(),
};

type RespondFields = z.output<z.ZodObject<typeof respondFields>>;

/** What can be said of a webhook. */
export const hookFields = {
  id: z
    .string()
    .max(limits.hookIdCharsMax)
    .regex(/^[a-z0-9][a-z0-9_-]*$/, 'must be lowercase letters, digits, - and _'),
  title: nonBlankText().max(limits.hookTitleCharsMax),
  description: z.string().max(limits.hookDescriptionCharsMax).default(''),
  enabled: flag().default(true),
  max_body_bytes: count(1, limits.hookBodyBytesMax).default(usual.maxBodyBytes),
  rate_limit_per_minute: count(1, limits.hookRateMax).default(usual.ratePerMinute),
  ...respondFields,
  ...targetFields,
  ...authFields,
  ...eventFields,
};

/** A webhook as it is written, with the keys of document 4 and its secrets. */
export const hookEntry = strictSection(hookFields).superRefine(checkHook, {
  when: ({ issues }) => issues.length === 0,
});

type HookEntry = z.output<typeof hookEntry>;

/** What its keys say against each other. */
function checkHook(entry: HookEntry, context: z.RefinementCtx): void {
  const report: Report = (key, message, hint) => {
    context.addIssue({ code: 'custom', path: key.split('.'), message, params: { hint } });
  };
  checkTarget(entry, report);
  checkRespond(entry, report);
  if (entry.respond === 'result' && entry.plugin === undefined && entry.pipeline === undefined) {
    report('respond', 'result is only for plugin and pipeline', 'Leave it out.');
  }
  checkAuth(entry, report);
  // A scheme that lacks something has been reported, and can't be built.
  const isWhole = entry.auth_mode !== 'signed' || entry.signed !== undefined;
  if (isWhole) checkEventFields(entry, toScheme(entry), report);
}

interface HookWithSecrets {
  readonly hook: Hook;
  /** Any of them is good; for bearer the global token counts where there is none. */
  readonly secrets: readonly string[];
}

export function toHook(entry: HookEntry): HookWithSecrets {
  const hook: Hook = {
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
    waitMs: waitOf(entry),
  };
  return { hook, secrets: secretsOf(entry) };
}

export function checkRespond({ respond, respond_within: within }: RespondFields, report: Report) {
  if (respond === 'result' || within === undefined) return;
  report('respond_within', 'is only for respond result', 'Leave it out.');
}

export function waitOf({ respond, respond_within: within }: RespondFields): number {
  return respond === 'result' ? (within ?? usual.waitMs) : 0;
}

/** The keys under which an entry would hold its secret, which nobody may read in a package. */
export const secretKeys: readonly string[] = ['token', 'hmac_secret'];

const fields = Object.fromEntries(
  Object.entries(hookFields).filter(([key]) => !secretKeys.includes(key)),
) as Omit<typeof hookFields, 'token' | 'hmac_secret'>;

/** As everywhere in the configuration of an installation, it may be written `credential:NAME`. */
export function nameCredential(value: string): string {
  return parseCredentialRef(value) ?? value;
}

/** Stands where the secret will be, so that the rest can be checked. */
const PLACEHOLDER = 'credential:secret';

/** A webhook as a package brings it: its secret is made, or is the credential that it names. */
export const packagedHook = strictSection({
  ...fields,
  credential: z
    .string()
    .refine((value) => credentialName.test(nameCredential(value)), 'must name a credential')
    .optional(),
}).superRefine(
  (entry, context) => {
    checkHook({ ...entry, [secretKeyOf(entry.auth_mode)]: [PLACEHOLDER] }, context);
  },
  { when: ({ issues }) => issues.length === 0 },
);
