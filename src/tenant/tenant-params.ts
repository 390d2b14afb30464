import * as z from 'zod';
import { limits } from '../base/limits.ts';

/** The limits of a tenant; null for no limit. */
export const tenantLimitFields = {
  workers: z.int().min(1).nullable().optional().describe('jobs that it may run at once'),
  queue_length: z
    .int()
    .min(1)
    .nullable()
    .optional()
    .describe('queued jobs that it may have, ready or delayed'),
  signals_per_minute: z.int().min(1).nullable().optional().describe('signals it may report'),
  storage_bytes: z.int().min(1).nullable().optional().describe('bytes that its ledger may take'),
};

/** The slug is part of a file name and of a schema name. */
export const tenantSlug = z
  .string()
  .regex(new RegExp(`^[a-z][a-z0-9_]{0,${limits.tenantSlugCharsMax - 1}}$`), {
    error: `must be a lowercase letter, then letters, digits and _, at most ${limits.tenantSlugCharsMax}`,
  })
  .refine((slug) => slug !== 'root', { error: 'is the name of the ledger that all have' });
