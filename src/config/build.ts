import { dirname } from 'node:path';
import { isIP } from 'node:net';
import type { JsonObject } from '../base/json.ts';
import type {
  ApiConfig,
  Config,
  PluginConfig,
  PluginRoot,
  RouteConfig,
  ServiceConfig,
  StateConfig,
} from './config.ts';
import type { Path } from './document.ts';
import { makeRecord } from './freeze.ts';
import { resolvePath } from './paths.ts';
import { pluginSchema } from './schema.ts';
import type { ParsedConfig, ParsedPlugin } from './schema.ts';

export interface BuildContext {
  readonly file: string;
  readonly directory: string;
  readonly home: string;
  readonly placeOf: (path: Path) => string;
  readonly report: (path: Path, message: string, hint?: string) => void;
}

/** From the keys as they are written to the shape that the program uses. */
export function buildConfig(parsed: ParsedConfig, context: BuildContext): Config {
  const { file, directory, placeOf } = context;
  const stateKey = parsed.database === undefined ? 'state' : 'database';
  const plugins = Object.entries(parsed.plugins).map(
    ([name, plugin]) => [name, buildPlugin(plugin, placeOf(['plugins', name]))] as const,
  );
  return {
    file,
    directory,
    service: buildService(parsed.service),
    state: buildState(parsed[stateKey] ?? {}, stateKey, context),
    pluginRoots: buildRoots(parsed.plugin_roots, context),
    plugins: makeRecord(plugins),
    pluginDefaults: buildPlugin(pluginSchema.parse({}), file),
    routes: parsed.routes.map((route, index) => buildRoute(route, placeOf(['routes', index]))),
    api: buildApi(parsed.api, context),
  };
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
  };
}

function buildState(
  parsed: NonNullable<ParsedConfig['state']>,
  key: string,
  context: BuildContext,
): StateConfig {
  const { directory, home } = context;
  if (parsed.url === undefined) {
    const path = resolvePath(parsed.path ?? './data/state.db', directory, home);
    return { kind: 'sqlite', path, dir: dirname(path) };
  }
  const dir = resolvePath(parsed.dir ?? './data', directory, home);
  const url = URL.parse(parsed.url);
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol)) {
    // The text is not shown: it usually holds a password.
    const form = 'Write postgres://user:password@host:5432/database, special characters as %XX.';
    context.report([key, 'url'], 'is not a PostgreSQL URL', form);
    return { kind: 'postgres', url: '', schema: '', dir };
  }
  const fromUrl = url.searchParams.get('schema') ?? undefined;
  url.searchParams.delete('schema');
  const schema = fromUrl ?? parsed.schema ?? 'ductile';
  const from = parsed.schema === undefined ? 'url' : 'schema';
  if (fromUrl !== undefined && parsed.schema !== undefined && fromUrl !== parsed.schema) {
    context.report([key, 'schema'], `says ${parsed.schema} but the url says ${fromUrl}`);
  } else if (!/^(?!pg_)[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
    const rule = 'Use lowercase letters, digits and _, at most 63, not starting with pg_.';
    context.report([key, from], `names the schema ${JSON.stringify(schema)}`, rule);
  }
  return { kind: 'postgres', url: url.href, schema, dir };
}

function buildRoots(parsed: readonly string[], context: BuildContext): PluginRoot[] {
  const roots = new Map<string, PluginRoot>();
  for (const [index, written] of parsed.entries()) {
    const path = resolvePath(written, context.directory, context.home);
    if (!roots.has(path))
      roots.set(path, { path, place: context.placeOf(['plugin_roots', index]) });
  }
  return [...roots.values()];
}

function buildPlugin(parsed: ParsedPlugin, place: string): PluginConfig {
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
    prewarm: parsed.prewarm,
    place,
  };
}

function buildRoute(parsed: ParsedConfig['routes'][number], place: string): RouteConfig {
  return {
    from: parsed.from,
    eventType: parsed.event_type,
    to: parsed.to,
    command: parsed.command,
    place,
  };
}

/** `host:port`, `[::1]:port`, or `:port` for all interfaces. */
function buildApi(parsed: ParsedConfig['api'], context: BuildContext): ApiConfig {
  const { enabled, listen } = parsed;
  const match = /^(?:\[([^\]]*)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(listen);
  const port = Number(match?.[3]);
  const usable =
    match !== null && port <= 65_535 && (match[1] === undefined || isIP(match[1]) === 6);
  if (!usable) {
    context.report(
      ['api', 'listen'],
      'is not an address',
      'Write host:port, as in 127.0.0.1:8080.',
    );
  }
  return { enabled, host: match?.[1] || match?.[2] || '0.0.0.0', port };
}
