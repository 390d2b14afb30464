import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';

/** Types that can wait for approval: all that any process can execute. */
export const approvable = [
  'breaker.reset',
  'credential.delete',
  'credential.rotate',
  'incident.acknowledge',
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
  'token.create',
  'token.revoke',
  'webhook.delete',
  'webhook.replay',
  'webhook.update',
] as const;

/** Approvers by type; an empty list means everyone who may request it. */
export type Approvals = Readonly<Record<string, readonly string[]>>;

/** A list of types. */
export const approvalList = z
  .array(z.enum(approvable))
  .transform((types): Approvals => Object.fromEntries(types.map((type) => [type, []])));

const typeName = z.string().refine((name) => approvable.some((type) => type === name), {
  error: `must be one of ${approvable.join(', ')}`,
});

/** A map from type to actors. */
export const approvalMap: z.ZodType<Approvals> = z.record(typeName, z.array(nonBlankText()));

/** The caller who decides about a directive. */
export interface Decider {
  readonly actor: string;
  readonly isOwner: boolean;
}

/** A waiting directive and the actors who are behind its request. */
export interface ApprovalRequest {
  readonly type: string;
  /** True if the decider is the person who requested it, under any name. */
  readonly isOwn: boolean;
}

/** Explains why the decider can't approve a directive; undefined if they can. */
export function explainRefusal(
  { type, isOwn }: ApprovalRequest,
  by: Decider,
  approvals: Approvals,
): string | undefined {
  if (by.isOwner) return undefined;
  if (isOwn) {
    return 'another person must approve it: a token of the requester, of the same lineage, does not count';
  }
  const approvers = Object.hasOwn(approvals, type) ? (approvals[type] ?? []) : [];
  if (approvers.length === 0 || approvers.includes(by.actor)) return undefined;
  return `only ${approvers.join(', ')} or an owner may approve ${type}`;
}
