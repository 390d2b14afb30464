import { limits } from '../base/limits.ts';

/** What counts of a webhook where its settings do not say it. */
export const usual = {
  command: 'handle',
  algorithm: 'sha256',
  encoding: 'hex',
  quietAction: 'skip',
  respond: 'accepted',
  replay: 'normal',
  maxBodyBytes: limits.hookBodyBytesMax,
  ratePerMinute: limits.hookRateUsual,
  waitMs: limits.hookRespondMs,
} as const;

/** What stands before a signature. */
export function usualPrefix(algorithm: string): string {
  return `${algorithm}=`;
}
