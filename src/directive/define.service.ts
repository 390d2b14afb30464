import type * as z from 'zod';
import type { JsonObject } from '../base/json.ts';
import type { DirectiveType } from './directive.ts';
import type { Role } from '../access/roles.ts';
import type { DirectiveWait } from './types.ts';
import type { DirectiveWork } from '../ledger/directive-work.ts';
import type { FollowRules } from '../pipeline/follow-rules.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Quota } from '../tenant/admission.ts';

export interface DirectRequest {
  readonly type: string;
  readonly params: unknown;
  readonly actor: string;
  /** What the caller is now, such as `owner`. */
  readonly actorRole?: Role;
  readonly idempotencyKey?: string;
  readonly dryRun?: boolean;
  /** A value that goes beside the params, because those are recorded. */
  readonly secret?: string;
  /** Done then and not before; at once unless told. */
  readonly due?: NonNullable<DirectiveWait['due']>;
  /** What is told of it is recorded, and starts nothing. */
  readonly isQuiet?: boolean;
  readonly correlationId?: string;
  readonly causationId?: string;
}

/** A kind of directive and how it is done. `plan` throws what would refuse it. */
export type DirectiveDefinition<Params extends object> = DirectiveType<Params> & {
  /** What the caller left open, as it is when it is asked for: what is recorded says what was meant. */
  resolve?(
    params: Params,
    request: Pick<DirectRequest, 'secret' | 'dryRun' | 'idempotencyKey'>,
  ): Params | Promise<Params>;
  /** The role that these params need beyond the type's own. */
  roleFor?(params: Params): Promise<RoleNeed | undefined>;
  /** Makes a secret for the caller alone; the record keeps what it is recognized by. */
  draw?(): DrawnSecret<Params>;
  /** The form of the params on record, where `draw` adds to them. */
  readonly recorded?: z.ZodType<Params>;
  /** Whether the secret beside a repeated request is the one of the directive on record. */
  isSameSecret?(recorded: Params, secret: string | undefined): boolean;
  plan(params: Params): string[] | Promise<string[]>;
  /** After the commit of one that completed, in the process that was asked. */
  after?(params: Params, result: JsonObject): void | Promise<void>;
} & (
    | {
        /** Pure SQL: the ledger does it in the transaction that records it. */
        prepare(params: Params, asked: Asked): Prepared | Promise<Prepared>;
        /** For params that the ledger cannot serve alone: what `prepare` leaves to the process. */
        execute?(params: Params, asked: Asked): Promise<JsonObject>;
      }
    | {
        /** Done by this process, while the directive is running. */
        execute(params: Params, asked: Asked): Promise<JsonObject>;
      }
  );

/** The role that a request needs because of what it sets. */
export interface RoleNeed {
  readonly role: Role;
  /** The part that needs it, such as a key of a plugin's configuration. */
  readonly what: string;
}

export interface DrawnSecret<Params extends object> {
  readonly params: Partial<Params>;
  /** Values that only the caller sees, once. */
  readonly reveal: JsonObject;
}

export interface Asked {
  readonly directiveId: string;
  readonly actor: string;
  /** How far it was when another process had it; null when it begins. */
  readonly progress: JsonObject | null;
  /** What came beside the params of one that is done at once; kept nowhere. */
  readonly secret?: string | undefined;
  /** Shows the caller something that isn't recorded, if they still wait for the result. */
  readonly reveal: (shown: JsonObject) => void;
  /** Aborted when the process stops. */
  readonly signal: AbortSignal;
}

export interface Prepared {
  readonly work: DirectiveWork;
  /** What only the one who asks gets to see; it is kept nowhere. */
  readonly reveal?: JsonObject;
  /** How many jobs it puts into the queue, which count as at any other door. */
  readonly jobs?: number;
}

/** What the ledger is asked to do; `process` where this process does it. */
export async function prepareWork(
  definition: DirectiveDefinition<object>,
  params: object,
  asked: Asked,
): Promise<Prepared> {
  if ('prepare' in definition) return await definition.prepare(params, asked);
  return { work: { kind: 'process' } };
}

/** Has the ledger do what was prepared. */
export async function admitWork<T>(
  { jobs = 0 }: Prepared,
  { within }: Pick<Quota, 'within'>,
  work: () => Promise<T>,
): Promise<T> {
  return jobs === 0 ? await work() : await within({ jobs, signals: 0 }, work);
}

/** The rules for what follows from the signals of a directive. */
export function directiveRulesOf({ generation, tenant }: LedgerContext): FollowRules {
  return { ...generation.rules, tenant: tenant?.slug };
}
