/** Context of a ledger for tests of single services. Parts that a test doesn't pass do nothing. */
import { CommitBus } from '../../src/engine/commit-events.ts';
import type { LedgerContext } from '../../src/engine/context.ts';
import { makeLogger } from '../../src/base/log.ts';
import type { Config } from '../../src/config/config.ts';
import type { Generation } from '../../src/engine/generation.ts';
import type { LedgerOverlay } from '../../src/ledger/ledger.ts';
import type { Catalog } from '../../src/plugin/catalog.ts';
import { unlimited } from '../../src/tenant/quota.service.ts';

export interface ContextOverrides extends Partial<Omit<LedgerContext, 'ledger' | 'generation'>> {
  readonly ledger?: LedgerOverlay;
  readonly generation?: Partial<Generation>;
}

export function makeContext(overrides: ContextOverrides = {}): LedgerContext {
  const context = {
    processId: 'me',
    tenant: undefined,
    quota: unlimited,
    reach: { api: undefined, webhooks: undefined },
    commits: new CommitBus(),
    log: makeLogger({ level: 'error', format: 'json', destination: { write: () => true } }),
    state: 'running',
    requireAccepting: () => undefined,
    get config(): Config | undefined {
      return context.generation?.config;
    },
    get catalog(): Catalog | undefined {
      return context.generation?.catalog;
    },
    generation: undefined as Partial<Generation> | undefined,
  };
  // Getters stay getters, so that a test can change what they return.
  Object.defineProperties(context, Object.getOwnPropertyDescriptors(overrides));
  return context as unknown as LedgerContext;
}
