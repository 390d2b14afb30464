import { createHash } from 'node:crypto';
import type { Config, PluginConfig } from './config.ts';
import { strictestLimits } from './resource-limits.ts';

/**
 * What a tenant has of the configuration files: the settings of the service, and of plugins, routes
 * and pipelines those that are marked as shared. Who may ask is said by its own ledger alone.
 */
export function forTenant(config: Config): Config {
  return {
    ...config,
    pluginLimits: strictestLimits(config.tenants.limits, config.pluginLimits),
    plugins: sharedPlugins(config.plugins),
    onlyListed: true,
    // What the root ledger installed is its own.
    handlers: [],
    routes: config.routes.filter(({ shared }) => shared),
    pipelines: config.pipelines.filter(({ shared }) => shared),
    api: { ...config.api, auth: { tokens: [] } },
    webhooks: { ...config.webhooks, endpoints: [] },
    // The directives that a tenant asks for are approved by its own people, or by nobody.
    directives: { approval: {} },
    fingerprint: createHash('sha256').update(`tenant ${config.fingerprint}`).digest('hex'),
    redacted: {},
  };
}

function sharedPlugins(plugins: Config['plugins']): Config['plugins'] {
  const shared = Object.create(null) as Record<string, PluginConfig>;
  for (const [name, settings] of Object.entries(plugins)) {
    if (settings.shared) shared[name] = settings;
  }
  return shared;
}
