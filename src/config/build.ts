import { isIP } from 'node:net';
import { type JsonObject, makeRecord } from '../base/json.ts';
import type {
  AdmissionConfig,
  ApiConfig,
  Config,
  PluginConfig,
  PluginRoot,
  RouteConfig,
  ServiceConfig,
  TelemetryConfig,
} from './config.ts';
import { toPipelineEntry } from '../pipeline/language/entry.ts';
import { toSchedule } from '../schedule/entry.ts';
import { keyText, type KeyPath } from './document.ts';
import { hostTimezone } from './fields.ts';
import { buildIsolation, reportOverlaps, buildLimits, strictestLimits } from './plugin-process.ts';
import { resolvePath } from '../base/files.ts';
import { pluginSchema, type ParsedConfig, type ParsedPlugin } from './schema.ts';
import { buildState } from './state.ts';
import { buildTokens, type TokenContext } from './tokens.ts';
import { buildWebhooks, checkProxies } from './webhooks.ts';
import { createHash } from 'node:crypto';

interface BuildContext {
  readonly file: string;
  readonly directory: string;
  readonly home: string;
  readonly placeOf: (path: KeyPath) => string;
  readonly report: (path: KeyPath, message: string, hint?: string) => void;
  readonly readScopes: TokenContext['readScopes'];
}

/** The configuration without the fields that depend on all files together. */
type BuiltConfig = Omit<Config, 'files' | 'fingerprint' | 'isLocked' | 'redacted' | 'warnings'>;

/** Builds the configuration of the program from the parsed keys. */
export function buildConfig(parsed: ParsedConfig, context: BuildContext): BuiltConfig {
  const { file, directory, placeOf } = context;
  const stateKey = parsed.database === undefined ? 'state' : 'database';
  const plugins = Object.entries(parsed.plugins).map(([name, plugin]) => {
    const path = ['plugins', name];
    const built = buildPlugin(plugin, placeOf(path), (below) => placeOf([...path, ...below]));
    const isolation =
      plugin.isolation && buildIsolation(plugin.isolation, [...path, 'isolation'], context);
    return [name, { ...built, isolation }] as const;
  });
  const built: BuiltConfig = {
    file,
    directory,
    service: buildService(parsed.service),
    state: buildState(parsed[stateKey] ?? {}, stateKey, context),
    pluginRoots: buildRoots(parsed.plugin_roots, 'plugin_roots', context),
    packageRoots: buildRoots(parsed.package_roots, 'package_roots', context),
    plugins: makeRecord(plugins),
    pluginDefaults: buildPlugin(pluginSchema.parse({}), file),
    pluginLimits: buildLimits(parsed.service.limits),
    pluginIsolation: makeRecord(
      plugins.flatMap(([name, { isolation }]) =>
        isolation === undefined ? [] : [[name, isolation] as const],
      ),
    ),
    onlyListed: false,
    routes: parsed.routes.map((route, index) => buildRoute(route, placeOf(['routes', index]))),
    pipelines: parsed.pipelines.map((pipeline, index) =>
      toPipelineEntry(pipeline, (below) => {
        const path = ['pipelines', index, ...below];
        return { place: placeOf(path), key: keyText(path) };
      }),
    ),
    handlers: [],
    directives: { approval: makeRecord(Object.entries(parsed.directives.approval)) },
    tenants: {
      trust: parsed.tenants.trust,
      idleMs: parsed.tenants.idle,
      limits: buildLimits(parsed.tenants.limits),
      isolation: buildIsolation(parsed.tenants.isolation, ['tenants', 'isolation'], context),
    },
    api: buildApi(parsed, context),
    telemetry: buildTelemetry(parsed.telemetry),
    webhooks: buildWebhooks(parsed.webhooks, {
      ...context,
      readAddress: (listen, path) => readAddress(listen, path, context),
      tokens: new Map(parsed.tokens.map(({ name, key }) => [name, key])),
    }),
  };
  reportOverlaps(built, context.report);
  return built;
}

function buildService(parsed: ParsedConfig['service']): ServiceConfig {
  return {
    name: parsed.name,
    logLevel: parsed.log_level,
    logFormat: parsed.log_format,
    maxWorkers: parsed.max_workers,
    dedupeTtlMs: parsed.dedupe_ttl,
    jobQueueRetentionMs: parsed.job_queue_retention,
    jobLogRetentionMs: parsed.job_log_retention,
    signalRetentionMs: parsed.signal_retention,
    factRetentionMs: parsed.fact_retention,
    contextRetentionMs: parsed.context_retention,
    allowSymlinks: parsed.allow_symlinks,
    pluginEnvPassthrough: [...new Set(parsed.plugin_env_passthrough)],
    shutdownTimeoutMs: parsed.shutdown_timeout,
    heartbeatIntervalMs: parsed.heartbeat_interval,
    reapAfterMs: parsed.reap_after,
    pollIntervalMs: parsed.poll_interval,
    maxCrashes: parsed.max_crashes,
    maxHops: parsed.max_hops,
    runnerGraceMs: parsed.runner_grace,
    spawner: parsed.spawner,
    tickIntervalMs: parsed.tick_interval,
    // Read on first use: looking up the host's time zone takes longer than everything else here.
    get timezone() {
      return parsed.timezone ?? hostTimezone();
    },
    quietHours: { start: parsed.quiet_hours.start, end: parsed.quiet_hours.end },
    breakerTransitionsRetentionMs: parsed.breaker_transitions_retention,
    admission: buildAdmission(parsed),
  };
}

/** Builds the checks of a start. The setting of one check overrides `strict_mode`. */
function buildAdmission({ admission, strict_mode }: ParsedConfig['service']): AdmissionConfig {
  return {
    verifyIntegrityOnBoot: admission.verify_integrity_on_boot ?? strict_mode,
    failOnDrift: admission.fail_on_drift ?? strict_mode,
    validateConfigOnBoot: admission.validate_config_on_boot ?? strict_mode,
    requireApiAuth: admission.require_api_auth ?? strict_mode,
  };
}

function buildRoots(
  parsed: readonly string[],
  key: 'plugin_roots' | 'package_roots',
  context: BuildContext,
): PluginRoot[] {
  const roots = new Map<string, PluginRoot>();
  for (const [index, written] of parsed.entries()) {
    const path = resolvePath(written, context.directory, context.home);
    if (!roots.has(path)) roots.set(path, { path, place: context.placeOf([key, index]) });
  }
  return [...roots.values()];
}

/** Builds a plugin. Without `placeOf`, all keys have the location `place`. */
export function buildPlugin(
  parsed: ParsedPlugin,
  place: string,
  placeOf: (path: KeyPath) => string = () => place,
): PluginConfig {
  const { api_access: access } = parsed;
  return {
    enabled: parsed.enabled,
    uses: parsed.uses,
    // The document has no values that JSON can't represent: reading refuses them.
    config: parsed.config as JsonObject,
    retry: {
      maxAttempts: parsed.retry.max_attempts,
      backoffBaseMs: parsed.retry.backoff_base,
    },
    timeoutsMs: makeRecord(Object.entries(parsed.timeouts)),
    parallelism: parsed.parallelism,
    limits: buildLimits(parsed.limits),
    prewarm: parsed.prewarm,
    schedules: parsed.schedules.map(toSchedule),
    circuitBreaker: {
      threshold: parsed.circuit_breaker.threshold,
      resetAfterMs: parsed.circuit_breaker.reset_after,
    },
    maxOutstandingPolls: parsed.max_outstanding_polls,
    notifyOnComplete: parsed.notify_on_complete,
    apiAccess: access && {
      scopes: access.scopes,
      places: access.scopes.map((_, index) => placeOf(['api_access', 'scopes', index])),
    },
    shared: parsed.shared,
    // Only the files can set isolation, and they resolve its paths.
    isolation: undefined,
    place,
  };
}

export function buildRoute(parsed: ParsedConfig['routes'][number], place: string): RouteConfig {
  return {
    from: parsed.from,
    eventType: parsed.event_type,
    to: parsed.to,
    command: parsed.command,
    shared: parsed.shared,
    place,
  };
}

/** Parses `host:port`, `[::1]:port`, or `:port` for all interfaces. */
function readAddress(
  listen: string,
  path: KeyPath,
  { report }: BuildContext,
): { host: string; port: number } {
  const match = /^(?:\[([^\]]*)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(listen);
  const port = Number(match?.[3]);
  const usable =
    match !== null && port <= 65_535 && (match[1] === undefined || isIP(match[1]) === 6);
  if (!usable) {
    report(path, 'is not an address', 'Write host:port, as in 127.0.0.1:8080.');
  }
  return { host: match?.[1] || match?.[2] || '0.0.0.0', port };
}

function buildApi(parsed: ParsedConfig, context: BuildContext): ApiConfig {
  const { enabled, listen, discovery } = parsed.api;
  const isGuarded = buildAdmission(parsed.service).requireApiAuth;
  const { trusted_proxies: trustedProxies } = parsed.api;
  checkProxies(trustedProxies, (index, message, hint) =>
    context.report(['api', 'trusted_proxies', index], message, hint),
  );
  return {
    enabled,
    ...readAddress(listen, ['api', 'listen'], context),
    auth: { tokens: buildTokens(parsed, context) },
    maxConcurrentSync: parsed.api.max_concurrent_sync,
    maxSyncTimeoutMs: parsed.api.max_sync_timeout,
    allowedOrigins: parsed.api.allowed_origins,
    discovery: discovery ?? (isGuarded ? 'token' : 'open'),
    sseQueryToken: parsed.api.sse_query_token,
    trustedProxies,
  };
}

/**
 * Derives the configuration of a tenant: the settings of the service, and the shared plugins,
 * routes and pipelines. Only the tenant's own ledger grants access.
 */
export function toTenantConfig(config: Config): Config {
  return {
    ...config,
    pluginLimits: strictestLimits(config.tenants.limits, config.pluginLimits),
    plugins: sharedPlugins(config.plugins),
    onlyListed: true,
    // Installations of the root ledger belong to the root ledger.
    handlers: [],
    routes: config.routes.filter(({ shared }) => shared),
    pipelines: config.pipelines.filter(({ shared }) => shared),
    api: { ...config.api, auth: { tokens: [] } },
    webhooks: { ...config.webhooks, endpoints: [] },
    // Directives of a tenant are approved inside the tenant.
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

function buildTelemetry(parsed: ParsedConfig['telemetry']): TelemetryConfig {
  const { metrics, otlp } = parsed;
  if (otlp === undefined) return { metrics, otlp };
  return { metrics, otlp: { ...otlp, endpoint: otlp.endpoint.replace(/\/+$/, '') } };
}
