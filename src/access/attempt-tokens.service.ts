import type { LedgerContext } from '../engine/context.ts';
import { randomBytes } from 'node:crypto';
import { toTimestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import type { KnownSecret } from '../base/mask-values.ts';
import { RUN_TOKEN } from '../base/secrets.ts';
import { type Job, JOB_ACTOR, type JobCause } from '../job/job.ts';
import type { Plugin } from '../plugin/catalog.ts';
import { hashTokenText, makePrincipal, type Principal } from './principal.service.ts';

/**
 * Tokens of running attempts. They are known to this process alone and to nothing that outlives it;
 * each dies with its attempt.
 */
export class RunTokens {
  readonly #known = new Map<
    string,
    { readonly principal: Principal; readonly goodUntil: number }
  >();

  /** Whose token this is, while the attempt that it was made for goes on. */
  find(presented: string): Principal | undefined {
    const found = this.#known.get(hashTokenText(presented));
    return found === undefined || performance.now() >= found.goodUntil
      ? undefined
      : found.principal;
  }

  make(principal: Principal, untilMs: number): Made {
    const token = `${RUN_TOKEN}${randomBytes(TOKEN_BYTES).toString('base64url')}`;
    const digest = hashTokenText(token);
    // The attempt ends by the clock that only goes forward, however the time of day is set meanwhile.
    const goodUntil = performance.now() + untilMs - Date.now();
    this.#known.set(digest, { principal, goodUntil });
    return { token, end: () => void this.#known.delete(digest) };
  }
}

interface Made {
  readonly token: string;
  readonly end: () => void;
}

const TOKEN_BYTES = 32;

/** What one attempt is told of the API; `end` when it is over. */
export interface AttemptAccess {
  readonly api: JsonObject;
  readonly secret: KnownSecret;
  readonly end: () => void;
}

/** Undefined for a plugin that is given no access, and where there is no API to be asked. */
export type GrantAccess = (job: Job, plugin: Plugin, untilMs: number) => AttemptAccess | undefined;

export function makeGrantAccess(
  { reach, tenant }: Pick<LedgerContext, 'reach' | 'tenant'>,
  runTokens: RunTokens,
): GrantAccess {
  return (job, { apiAccess }, untilMs) => {
    const url = reach.api;
    if (apiAccess === undefined || url === undefined) return undefined;
    const plain = makePrincipal(`${JOB_ACTOR}${job.id}`, apiAccess.scopes);
    const { token, end } = runTokens.make(
      { ...plain, tenant: tenant?.slug, cause: causeOf(job) },
      untilMs,
    );
    const expiresAt = toTimestamp(untilMs);
    return {
      api: { url, mcp_url: `${url}/mcp`, token, expires_at: expiresAt },
      secret: { value: token, shown: '[run token]' },
      end,
    };
  };
}

function causeOf({ id, rootJobId, sourceEventId, hops, runtimeCaused }: Job): JobCause {
  return { jobId: id, rootJobId, sourceEventId, hops, runtimeCaused };
}
