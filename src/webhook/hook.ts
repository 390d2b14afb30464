import * as z from 'zod';
import { count, flag, section, text } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { authFields, checkAuth, secretsOf, toScheme } from './hook-auth.ts';
import { checkTarget, targetFields, toTarget, type Report, type Target } from './hook-target.ts';
import type { Scheme } from './scheme.ts';

/** A webhook, ready to be used. Its secrets are not in it, so that it can be kept and shown. */
export interface Hook {
  readonly id: string;
  readonly title: string;
  readonly description: string;
  readonly enabled: boolean;
  readonly target: Target;
  readonly auth: Scheme;
  readonly maxBodyBytes: number;
  readonly ratePerMinute: number;
}

const fields = {
  id: z
    .string()
    .max(limits.hookIdCharsMax)
    .regex(/^[a-z0-9][a-z0-9_-]*$/, 'must be lowercase letters, digits, - and _'),
  title: text().max(limits.hookTitleCharsMax),
  description: z.string().max(limits.hookDescriptionCharsMax).default(''),
  enabled: flag().default(true),
  max_body_bytes: count(1, limits.hookBodyBytesMax).default(limits.hookBodyBytesMax),
  rate_limit_per_minute: count(0, limits.hookRateMax).default(limits.hookRateUsual),
  ...targetFields,
  ...authFields,
};

/** A webhook as it is written, with the keys of document 4 and its secrets. */
export const hookEntry = section(fields).superRefine(
  (entry, context) => {
    const report: Report = (key, message, hint) => {
      context.addIssue({ code: 'custom', path: key.split('.'), message, params: { hint } });
    };
    checkTarget(entry, report);
    checkAuth(entry, report);
  },
  { when: ({ issues }) => issues.length === 0 },
);

export type HookEntry = z.output<typeof hookEntry>;

export interface HookWithSecrets {
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
    maxBodyBytes: entry.max_body_bytes,
    ratePerMinute: entry.rate_limit_per_minute,
  };
  return { hook, secrets: secretsOf(entry) };
}
