import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import type { Role } from '../base/roles.ts';

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

/** A waiting directive, as the decision about it needs it. */
export interface ApprovalRequest {
  readonly type: string;
  /** True if the decider is the person who requested it, under any name. */
  readonly isOwn: boolean;
}

/** Explains why the decider can't approve a directive; undefined if they can. */
export function explainRefusal(
  { type, isOwn }: ApprovalRequest,
  decider: Decider,
  approvals: Approvals,
): string | undefined {
  if (decider.isOwner) return undefined;
  if (isOwn) {
    return 'another person must approve it; other tokens of the requester do not count';
  }
  const approvers = Object.hasOwn(approvals, type) ? (approvals[type] ?? []) : [];
  if (approvers.length === 0 || approvers.includes(decider.actor)) return undefined;
  return `only ${approvers.join(', ')} or an owner may approve ${type}`;
}

/** The creator of a token of the ledger. */
export interface TokenOrigin {
  readonly name: string;
  readonly role: Role;
  /** The actor of its `token.create`. */
  readonly createdBy: string;
}

const TOKEN_ACTOR = 'token:';

/**
 * True if two actors count as one person. They do if one created the other's token, directly or
 * through further tokens, or if both descend from the same token without an owner in between. An
 * owner gives tokens to other people; other callers only create more of their own.
 */
export function isSamePerson(a: string, b: string, origins: readonly TokenOrigin[]): boolean {
  const byActor = new Map(origins.map((one) => [`${TOKEN_ACTOR}${one.name}`, one]));
  const [lineageA, lineageB] = [a, b].map((actor) => readLineage(actor, byActor));
  if (lineageA?.all.includes(b) === true || lineageB?.all.includes(a) === true) return true;
  return lineageA?.person === lineageB?.person;
}

interface Lineage {
  /** The actor and its chain of creators. */
  readonly all: readonly string[];
  /** The first actor of the chain that an owner created: the actors before it are the same person. */
  readonly person: string;
}

function readLineage(actor: string, byActor: ReadonlyMap<string, TokenOrigin>): Lineage {
  const all = [actor];
  let person: string | undefined;
  for (let at = byActor.get(actor); at !== undefined;) {
    const { createdBy } = at;
    const creator = byActor.get(createdBy);
    // Tokens of the configuration, the command line and the operator create tokens only as owners.
    if (creator === undefined || creator.role === 'owner') person ??= all.at(-1);
    // Old rows may have reused names, so the chain can be circular.
    if (all.includes(createdBy)) break;
    all.push(createdBy);
    at = creator;
  }
  return { all, person: person ?? all.at(-1) ?? actor };
}
