import { isIP } from 'node:net';
import type { JsonObject } from '../base/json.ts';
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
import { keyText, type Path } from './document.ts';
import { hostTimezone } from './fields.ts';
import { makeRecord } from './freeze.ts';
import { buildIsolation, reportOverlaps } from './isolation.ts';
import { resolvePath } from './paths.ts';
import { buildLimits, strictestLimits } from './resource-limits.ts';
import { pluginSchema, type ParsedConfig, type ParsedPlugin } from './schema.ts';
import { buildState } from './state.ts';
import { buildTokens, type TokenContext } from './tokens.ts';
import { buildWebhooks, checkProxies } from './webhooks.ts';
import { createHash } from 'node:crypto';

interface BuildContext {
  readonly file: string;
  readonly directory: string;
  readonly home: string;
  readonly placeOf: (path: Path) => string;
  readonly report: (path: Path, message: string, hint?: string) => void;
  readonly readScopes: TokenContext['readScopes'];
}

/** All but what only the whole of the files can tell. */
type BuiltConfig = Omit<Config, 'files' | 'fingerprint' | 'isLocked' | 'redacted' | 'warnings'>;

/** From the keys as they are written to the shape that the program uses. */
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
    // Asking for the host's takes longer than all the rest, and most commands never need it.
    get timezone() {
      return parsed.timezone ?? hostTimezone();
    },
    quietHours: { start: parsed.quiet_hours.start, end: parsed.quiet_hours.end },
    breakerTransitionsRetentionMs: parsed.breaker_transitions_retention,
    admission: buildAdmission(parsed),
  };
}

/** What is said about one gate wins over what `strict_mode` says about all. */
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

/** Whoever cannot tell where its keys are written has them all at one place. */
export function buildPlugin(
  parsed: ParsedPlugin,
  place: string,
  placeOf: (path: Path) => string = () => place,
): PluginConfig {
  const { api_access: access } = parsed;
  return {
    enabled: parsed.enabled,
    uses: parsed.uses,
    // The document was scanned for what JSON cannot hold.
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
    // Only the files can set it, and they resolve its paths.
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

/** `host:port`, `[::1]:port`, or `:port` for all interfaces. */
function readAddress(
  listen: string,
  path: Path,
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

function buildTelemetry(parsed: ParsedConfig['telemetry']): TelemetryConfig {
  const { metrics, otlp } = parsed;
  if (otlp === undefined) return { metrics, otlp };
  return { metrics, otlp: { ...otlp, endpoint: otlp.endpoint.replace(/\/+$/, '') } };
}
