import type { LedgerContext } from '../engine/context.ts';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { ApiToken } from '../config/config.ts';
import { roleScopes } from './roles.ts';
import type { ApiTokenRow } from './types.ts';
import {
  configuredHolder,
  hashTokenText,
  findConfigured,
  type Principal,
  type Tokens,
} from './principal.service.ts';

export interface TokenStore extends Tokens, Service {
  /** Reads those of the ledger again, before anybody else is let in. */
  refresh(): Promise<void>;
}

interface Known {
  readonly id: string;
  readonly principal: Principal;
}

function toKnown({ id, name, role, scopes: own }: ApiTokenRow, tenant: string | undefined): Known {
  const scopes = [...roleScopes[role], ...own];
  return { id, principal: { actor: `token:${name}`, scopes, role, tenant } };
}

/**
 * The tokens of the configuration and those of the ledger. The ledger is read at most once in a
 * while, however many ask; that a token was used is written down for many requests at once.
 */
export function makeTokenStore(context: LedgerContext): TokenStore {
  const { ledger, tenant: { slug: tenant } = {} } = context;
  const log = context.log.child('tokens');
  const configured = (): readonly ApiToken[] => context.config.api.auth.tokens;
  let known: ReadonlyMap<string, Known> = new Map();
  let expiredNames: ReadonlyMap<string, string> = new Map();
  let readAt = -Infinity;
  let reading: Promise<void> | undefined;
  const used = new Set<string>();

  const read = async (): Promise<void> => {
    const at = performance.now();
    const tokens = await ledger.tokens.list();
    const valid = tokens.filter(({ expired }) => !expired);
    known = new Map(valid.map((token) => [token.digest, toKnown(token, tenant)]));
    expiredNames = new Map(
      tokens.filter(({ expired }) => expired).map(({ digest, name }) => [digest, name]),
    );
    readAt = at;
  };

  const refresh = async (): Promise<void> => {
    // One that began earlier may have seen the ledger as it was before.
    await reading?.catch(() => undefined);
    await (reading ??= read().finally(() => (reading = undefined)));
  };

  const flush = async (): Promise<void> => {
    if (used.size === 0) return;
    const ids = [...used];
    used.clear();
    await ledger.tokens.recordUse(ids);
  };

  const loop = makeLoop({
    name: 'tokens',
    everyMs: () => limits.tokenUseEveryMs,
    runOnce: flush,
    onError: (error) => log.warn('the use of tokens was not noted', { error: messageOf(error) }),
  });

  return {
    ...loop,
    refresh,
    async find(presented) {
      const own = findConfigured(configured(), presented);
      if (own !== undefined) return own;
      if (performance.now() - readAt >= limits.tokenCacheMs) {
        await (reading ??= read().finally(() => (reading = undefined)));
      }
      // A digest cannot be approached guess by guess, so that it is looked up tells nothing.
      const found = known.get(hashTokenText(presented));
      if (found === undefined) return undefined;
      used.add(found.id);
      return found.principal;
    },
    findExpired: (presented) => expiredNames.get(hashTokenText(presented)),
    async holderOf(actor) {
      const own = configuredHolder(configured(), actor);
      if (own !== undefined) return own;
      await refresh();
      return [...known.values()].find(({ principal }) => principal.actor === actor)?.principal;
    },
    async stop() {
      await loop.stop();
      await flush().catch((error: unknown) => {
        log.warn('the use of tokens was not noted', { error: messageOf(error) });
      });
    },
  };
}
