import * as z from 'zod';
import { text } from '../base/fields.ts';

/** The types that can wait for somebody's approval: all that need not be done where they are asked. */
export const approvable = [
  'breaker.reset',
  'credential.delete',
  'credential.rotate',
  'job.cancel',
  'job.retry',
  'package.disable',
  'package.enable',
  'package.install',
  'package.uninstall',
  'package.upgrade',
  'plugin.disable',
  'plugin.enable',
  'plugin.init',
  'run.approve',
  'run.cancel',
  'run.retry_from',
  'run.revive',
  'schedule.pause',
  'schedule.resume',
  'signal.replay',
  'system.pause',
  'system.prune',
  'system.resume',
  'tenant.create',
  'tenant.delete',
  'tenant.limit',
  'tenant.resume',
  'tenant.suspend',
  'token.revoke',
  'webhook.delete',
  'webhook.replay',
  'webhook.update',
] as const;

/** By type, who may approve; nobody named is everybody who may ask for it. */
export type Approvals = Readonly<Record<string, readonly string[]>>;

/** As a list of types. */
export const approvalList = z
  .array(z.enum(approvable))
  .transform((types): Approvals => Object.fromEntries(types.map((type) => [type, []])));

const typeName = z.string().refine((name) => approvable.some((type) => type === name), {
  error: `must be one of ${approvable.join(', ')}`,
});

/** As a map from type to actors. */
export const approvalMap: z.ZodType<Approvals> = z.record(typeName, z.array(text()));

/** Somebody who decides about a directive. */
export interface Decider {
  readonly actor: string;
  readonly isOwner: boolean;
}

/** Why this one may not approve what another asked for; undefined when it may. */
export function explainRefusal(
  { type, actor }: { readonly type: string; readonly actor: string },
  by: Decider,
  approvals: Approvals,
): string | undefined {
  if (by.isOwner) return undefined;
  if (by.actor === actor) return 'somebody else than the one who asked must approve it';
  const approvers = Object.hasOwn(approvals, type) ? (approvals[type] ?? []) : [];
  if (approvers.length === 0 || approvers.includes(by.actor)) return undefined;
  return `only ${approvers.join(', ')} or an owner may approve ${type}`;
}
