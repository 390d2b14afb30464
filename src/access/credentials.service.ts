import { randomBytes } from 'node:crypto';
import { toTimestamp } from '../base/clock.ts';
import { RUN_TOKEN } from '../base/secrets.ts';
import { type Job, JOB_ACTOR, type JobCause } from '../job/job.ts';
import { hashTokenText, makePrincipal, type Principal } from './tokens.service.ts';
import { fillCredentials, findCredentials, formatCredentialMask } from '../base/credential-ref.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { KnownSecret } from '../base/mask-values.ts';
import { makeLoop, type Service } from '../base/service.ts';
import { purposes } from '../base/seal.ts';
import type { Plugin } from '../plugin/catalog.ts';
import { guardFirstKey } from './vault.service.ts';
import type { LedgerContext } from '../engine/context.ts';

/** A plugin's configuration with the values of its credentials. */
interface RevealedConfig {
  readonly config: Readonly<JsonObject>;
  /** The values that must be masked in all output. */
  readonly secrets: readonly KnownSecret[];
}

/** The values of credentials, read for each attempt: a change or a deletion counts at once. */
export interface Credentials extends Service {
  /** Throws CREDENTIAL_NOT_FOUND if a credential is missing or has expired. */
  reveal(plugin: Pick<Plugin, 'config'>): Promise<RevealedConfig>;
}

export function makeCredentials(context: LedgerContext): Credentials {
  const { ledger, vault } = context;
  const log = context.log.child('credentials');
  const used = new Set<string>();
  const flush = async (): Promise<void> => {
    if (used.size === 0) return;
    const names = [...used];
    used.clear();
    await ledger.credentials.recordUse(names);
  };
  const logUnrecorded = (error: unknown): void =>
    log.warn('the use of credentials was not recorded', { error: messageOf(error) });
  const loop = makeLoop({
    name: 'credentials',
    everyMs: () => limits.tokenUseEveryMs,
    runOnce: flush,
    onError: logUnrecorded,
  });

  const readValue = async (name: string): Promise<string> => {
    const found = await ledger.credentials.find(name);
    if (found === undefined) throw createMissingError(name, `there is no credential ${name}`);
    if (found.isExpired) throw createMissingError(name, `the credential ${name} has expired`);
    used.add(name);
    return vault.open(found.sealed, purposes.credential(name));
  };

  return {
    ...loop,
    async reveal({ config }) {
      const names = listNames(config);
      if (names.length === 0) return { config, secrets: [] };
      const values = new Map<string, string>();
      for (const name of names) values.set(name, await readValue(name));
      const secrets = [...values].map(([name, value]) => ({
        value,
        shown: formatCredentialMask(name),
      }));
      return { config: fillCredentials(config, (name) => values.get(name) ?? ''), secrets };
    },
    async start() {
      await guardFirstKey(vault, ledger);
      await loop.start();
    },
    async stop() {
      await loop.stop();
      await flush().catch(logUnrecorded);
    },
  };
}

const namesByConfig = new WeakMap<Readonly<JsonObject>, readonly string[]>();

/** Lists the credentials of a configuration, which never changes, so that it is searched once. */
function listNames(config: Readonly<JsonObject>): readonly string[] {
  let names = namesByConfig.get(config);
  if (names === undefined) {
    names = [...new Set(findCredentials(config).map(({ name }) => name))];
    namesByConfig.set(config, names);
  }
  return names;
}

function createMissingError(name: string, message: string): DuctileError {
  return new DuctileError('CREDENTIAL_NOT_FOUND', message, {
    place: name,
    hint: `Set it with \`ductile credential set ${name}\`.`,
  });
}

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
interface AttemptAccess {
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
