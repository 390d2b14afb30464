import type { TokenStore } from '../access/tokens.service.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import type { Dispatcher } from '../job/dispatcher.service.ts';
import type { Pause, PluginSwitches } from '../job/pause.service.ts';
import type { PluginInits } from '../job/plugin-init.service.ts';
import type { Provisioner } from '../package/change.service.ts';
import type { IsolationOf } from '../tenant/require-isolation.service.ts';
import type { Tenants } from '../tenant/tenants.ts';
import type { WebhookIntake, Webhooks } from '../webhook/webhooks.ts';
import type { LedgerContext } from './context.ts';
import type { Engine } from './engine.ts';
import type { Reloader } from './reload.ts';

/** Services that carry out directives. */
export interface DirectiveServices {
  readonly dispatcher: Dispatcher;
  readonly pause: Pause;
  readonly switches: PluginSwitches;
  readonly tokens: TokenStore;
  readonly pluginInits: PluginInits;
  readonly reloader: Reloader;
  readonly webhookIntake: WebhookIntake;
  readonly webhooks: Webhooks;
  readonly packages: Provisioner;
  /** Undefined for tenants. */
  readonly tenants: Tenants<Engine> | undefined;
  readonly isolation: IsolationOf | undefined;
}

/** The context of a directive: that of its ledger, with the services that carry out directives. */
export interface DirectiveContext extends Readonly<LedgerContext> {
  readonly services: DirectiveServices;
}

export function createDirectiveContext(
  context: LedgerContext,
  services: DirectiveServices,
): DirectiveContext {
  const { ledger, processId, tenant, quota, vault, reach, commits, log } = context;
  return {
    ledger,
    processId,
    tenant,
    quota,
    vault,
    reach,
    commits,
    log,
    services,
    // A reload replaces the generation, and with it the configuration and the catalog.
    get generation() {
      return context.generation;
    },
    get config() {
      return context.config;
    },
    get catalog() {
      return context.catalog;
    },
    get state() {
      return context.state;
    },
    requireAccepting: () => context.requireAccepting(),
  };
}

/** Lists the directives of a ledger. A tenant doesn't change what belongs to the process. */
export function listLedgerDirectives(
  definitions: readonly EngineDirective[],
  { tenant }: Pick<LedgerContext, 'tenant'>,
): readonly EngineDirective[] {
  return definitions.filter(({ ledgers }) => ledgers !== 'root' || tenant === undefined);
}

export type EngineDirective = DirectiveDefinition<object, DirectiveContext>;
