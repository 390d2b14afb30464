import type { LedgerContext } from '../engine/context.ts';
import { randomBytes } from 'node:crypto';
import { toTimestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import type { KnownSecret } from '../base/mask-values.ts';
import { RUN_TOKEN } from '../base/secrets.ts';
import { type Job, JOB_ACTOR, type JobCause } from '../job/job.ts';
import type { Plugin } from '../plugin/catalog.ts';
import { hashTokenText, makePrincipal, type Principal } from './tokens.service.ts';

/**
 * Tokens of running attempts. Only the memory of this process knows them, and each expires with its
 * attempt.
 */
export class RunTokens {
  readonly #byDigest = new Map<
    string,
    { readonly principal: Principal; readonly expiresAt: number }
  >();

  /** Returns the principal of a token; undefined if it is unknown or its attempt has ended. */
  find(presented: string): Principal | undefined {
    const found = this.#byDigest.get(hashTokenText(presented));
    return found === undefined || performance.now() >= found.expiresAt
      ? undefined
      : found.principal;
  }

  create(principal: Principal, untilMs: number): RunToken {
    const token = `${RUN_TOKEN}${randomBytes(TOKEN_BYTES).toString('base64url')}`;
    const digest = hashTokenText(token);
    // The monotonic clock decides, so that a change of the time of day can't extend a token.
    const expiresAt = performance.now() + untilMs - Date.now();
    this.#byDigest.set(digest, { principal, expiresAt });
    return { token, end: () => void this.#byDigest.delete(digest) };
  }
}

interface RunToken {
  readonly token: string;
  readonly end: () => void;
}

const TOKEN_BYTES = 32;

/** The API access of one attempt. The caller ends it with the attempt. */
export interface AttemptAccess {
  /** The part of the plugin's request that describes the API. */
  readonly api: JsonObject;
  readonly secret: KnownSecret;
  readonly end: () => void;
}

/** Returns undefined if the plugin has no API access, or the API is disabled. */
export type GrantAccess = (job: Job, plugin: Plugin, untilMs: number) => AttemptAccess | undefined;

export function makeGrantAccess(
  { reach, tenant }: Pick<LedgerContext, 'reach' | 'tenant'>,
  runTokens: RunTokens,
): GrantAccess {
  return (job, { apiAccess }, untilMs) => {
    const url = reach.api;
    if (apiAccess === undefined || url === undefined) return undefined;
    const principal = makePrincipal(`${JOB_ACTOR}${job.id}`, apiAccess.scopes);
    const { token, end } = runTokens.create(
      { ...principal, tenant: tenant?.slug, cause: causeOf(job) },
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
