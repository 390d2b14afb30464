import type { JsonObject } from '../base/json.ts';
import type { Approvals } from '../directive/approval.ts';
import type { PipelineEntry } from '../pipeline/language/entry.ts';
import type { QuietHours } from '../schedule/window.ts';
import type { Schedule } from '../schedule/schedule.ts';
import type { CheckOrder } from '../webhook/check.ts';
import type { EventRules } from '../webhook/event-type.ts';
import type { HmacScheme } from '../webhook/verify/hmac.ts';
import type { Template } from '../pipeline/language/template.ts';
import type { Problem } from './problem.ts';

/**
 * The active configuration: checked, complete with defaults, frozen. Durations are in milliseconds.
 */
export interface Config {
  /** The root file, absolute. */
  readonly file: string;
  /** The base of relative paths. */
  readonly directory: string;
  readonly service: ServiceConfig;
  readonly state: StateConfig;
  readonly pluginRoots: readonly PluginRoot[];
  /** Directories that are searched for packages, besides those of the program. */
  readonly packageRoots: readonly PluginRoot[];
  /** By name, disabled ones included; the record has no prototype. */
  readonly plugins: Readonly<Record<string, PluginConfig>>;
  /** The settings of plugins that are found but not listed. */
  readonly pluginDefaults: PluginConfig;
  /** The limits of plugins that have none of their own. */
  readonly pluginLimits: ResourceLimits;
  /** Isolation that the files set, by plugin name. Aliases of the plugin have it, too. */
  readonly pluginIsolation: Readonly<Record<string, IsolationConfig>>;
  /** True for tenants: plugins that are found but not listed don't exist. */
  readonly onlyListed: boolean;
  readonly routes: readonly RouteConfig[];
  readonly pipelines: readonly PipelineEntry[];
  /** Handlers that request directives for signals; only installations bring them. */
  readonly handlers: readonly HandlerConfig[];
  readonly directives: DirectivesConfig;
  readonly tenants: TenantsConfig;
  readonly api: ApiConfig;
  readonly webhooks: WebhooksConfig;
  readonly telemetry: TelemetryConfig;
  /** All files that were read, in the order of merging. */
  readonly files: readonly ConfigFile[];
  /** False without a `.checksums` to compare the files with. */
  readonly isLocked: boolean;
  /** Changes with every active value. It reveals nothing about the secrets. */
  readonly fingerprint: string;
  /** The keys as written, with defaults filled in and secrets removed. */
  readonly redacted: Readonly<JsonObject>;
  /** Problems that don't prevent its use. */
  readonly warnings: readonly Problem[];
}

export interface ConfigFile {
  /** Absolute. */
  readonly path: string;
  readonly tier: Tier;
  /** BLAKE3 of its bytes, in hexadecimal. */
  readonly hash: string;
}

/** Files of the `high` tier grant access; they are never used unless they are locked. */
export type Tier = 'high' | 'operational';

export interface ServiceConfig {
  readonly name: string;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  /** `auto` is text on a terminal and JSON elsewhere. */
  readonly logFormat: 'auto' | 'json' | 'text';
  readonly maxWorkers: number;
  readonly dedupeTtlMs: number;
  readonly jobQueueRetentionMs: number;
  readonly jobLogRetentionMs: number;
  readonly signalRetentionMs: number;
  readonly factRetentionMs: number;
  readonly contextRetentionMs: number;
  readonly allowSymlinks: boolean;
  readonly pluginEnvPassthrough: readonly string[];
  readonly shutdownTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  readonly reapAfterMs: number;
  readonly pollIntervalMs: number;
  readonly maxCrashes: number;
  readonly maxHops: number;
  readonly runnerGraceMs: number;
  readonly spawner: 'auto' | 'native' | 'node';
  /** The longest time between two checks of the schedules. */
  readonly tickIntervalMs: number;
  /** The IANA time zone of schedules that name none. */
  readonly timezone: string;
  /** The default of schedules and webhooks. */
  readonly quietHours: QuietHours;
  readonly breakerTransitionsRetentionMs: number;
  readonly admission: AdmissionConfig;
}

/** Checks that can prevent a start. */
export interface AdmissionConfig {
  /** Refuse files that were never locked. */
  readonly verifyIntegrityOnBoot: boolean;
  /** Refuse files that changed after they were locked. */
  readonly failOnDrift: boolean;
  /** Treat plugins that don't load, and warnings, as errors. */
  readonly validateConfigOnBoot: boolean;
  /** Require a token for discovery. */
  readonly requireApiAuth: boolean;
}

/**
 * The location of the root ledger, and the directory for the lock, the socket and other ledgers.
 */
export type StateConfig =
  | { readonly kind: 'sqlite'; readonly path: string; readonly dir: string }
  | {
      readonly kind: 'postgres';
      /** Without our `schema` parameter, which the driver doesn't know. */
      readonly url: string;
      readonly schema: string;
      readonly dir: string;
    };

export interface PluginRoot {
  readonly path: string;
  readonly place: string;
}

export interface PluginConfig {
  readonly enabled: boolean;
  /** The plugin whose code runs under this name. */
  readonly uses: string | undefined;
  readonly config: Readonly<JsonObject>;
  readonly retry: RetryConfig;
  /** By command; other commands have the default of their kind. */
  readonly timeoutsMs: Readonly<Record<string, number>>;
  /** Undefined when it isn't set. */
  readonly parallelism: number | undefined;
  /** Limits for all processes of one attempt together. */
  readonly limits: ResourceLimits;
  /** Undefined when it isn't set. */
  readonly prewarm: number | undefined;
  readonly schedules: readonly Schedule[];
  readonly circuitBreaker: CircuitBreakerConfig;
  /** The most queued and running jobs of one schedule. */
  readonly maxOutstandingPolls: number;
  /** True to emit `job.succeeded` for each of its jobs that isn't a step of a run. */
  readonly notifyOnComplete: boolean;
  /** The scopes of its jobs while they run; undefined without access to the API. */
  readonly apiAccess: ApiAccess | undefined;
  /** True when every tenant has it, too. */
  readonly shared: boolean;
  /** Undefined when its processes aren't confined, except in a tenant. */
  readonly isolation: IsolationConfig | undefined;
  readonly place: string;
}

/** Undefined means not set here; 0 is unlimited, whatever a default says. */
export interface ResourceLimits {
  readonly memoryBytes: number | undefined;
  readonly processes: number | undefined;
  readonly cpuMs: number | undefined;
  readonly fileBytes: number | undefined;
}

export interface IsolationConfig {
  /** Undefined when it isn't set: `host`, or what `tenants.isolation` says. */
  readonly network: 'host' | 'none' | undefined;
  /** Absolute paths that its processes may read, besides the system and the plugins. */
  readonly read: readonly string[];
  /** Absolute paths of directories that its processes may write. */
  readonly write: readonly string[];
}

export interface ApiAccess {
  readonly scopes: readonly string[];
  /** The location of each scope. */
  readonly places: readonly string[];
}

interface CircuitBreakerConfig {
  readonly threshold: number;
  readonly resetAfterMs: number;
}

export interface RetryConfig {
  readonly maxAttempts: number;
  readonly backoffBaseMs: number;
}

export interface RouteConfig {
  readonly from: string | undefined;
  readonly eventType: string;
  /** `plugin`, or `plugin.command` unless a plugin has exactly that name. */
  readonly to: string;
  /** Undefined when `to` names the command. */
  readonly command: string | undefined;
  readonly shared: boolean;
  readonly place: string;
}

/** A handler: requests a directive for each matching signal, on behalf of its installation. */
export interface HandlerConfig {
  /** `<slug>/<number>`; with the signal it makes the key of the request. */
  readonly name: string;
  /** The exact type of the signals. */
  readonly on: string;
  /** Only signals of this sender. */
  readonly from: string | undefined;
  /** The type of the directive. */
  readonly directive: string;
  readonly params: Template;
  readonly installation: { readonly id: string; readonly slug: string; readonly version: string };
  readonly place: string;
}

interface DirectivesConfig {
  /** Directives that need an approval. */
  readonly approval: Approvals;
}

interface TenantsConfig {
  /** `isolated`: with a tenant, plugins do not see the directories of the state and configuration. */
  readonly trust: 'isolated' | 'shared';
  /** Isolation settings for plugin processes of all tenants. */
  readonly isolation: IsolationConfig;
  /** How long an idle tenant stays open after the last visit. */
  readonly idleMs: number;
  /** Limits of tenants' plugins that have none of their own. */
  readonly limits: ResourceLimits;
}

export interface ApiConfig {
  readonly enabled: boolean;
  readonly host: string;
  readonly port: number;
  readonly auth: { readonly tokens: readonly ApiToken[] };
  /** The most requests that wait for a result at the same time. */
  readonly maxConcurrentSync: number;
  readonly maxSyncTimeoutMs: number;
  /** Allowed origins of web pages; `*` is any. */
  readonly allowedOrigins: readonly string[];
  /** `open`: plugins, skills and OpenAPI need no token. */
  readonly discovery: 'open' | 'token';
  /** True to accept the token of `/events` in the query, for browsers that can't send a header. */
  readonly sseQueryToken: boolean;
  /** Addresses and subnets of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: readonly string[];
}

export interface WebhooksConfig {
  /** True when webhooks have a listener of their own. */
  readonly enabled: boolean;
  readonly host: string;
  readonly port: number;
  /** The order of the checks of a delivery. */
  readonly order: CheckOrder;
  /** The plugin that runs webhooks with a mode. */
  readonly agent: string;
  /** Addresses and subnets of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: readonly string[];
  /** The address that senders see, without a path. */
  readonly publicUrl: string | undefined;
  readonly endpoints: readonly EndpointConfig[];
}

/** A webhook of the configuration files. */
export interface EndpointConfig {
  readonly path: string;
  readonly plugin: string;
  readonly command: string;
  readonly secretRef: string;
  /** Undefined when `tokens.yaml` has no such name; then it is a credential. */
  readonly secret: string | undefined;
  readonly auth: HmacScheme;
  readonly eventRules: EventRules;
  readonly maxBodyBytes: number;
  /** How long the response waits for the result; 0 doesn't wait. */
  readonly waitMs: number;
  readonly place: string;
}

export interface ApiToken {
  readonly name: string;
  /** SHA-256 of the token, in hexadecimal. The token itself isn't stored. */
  readonly digest: string;
  readonly scopes: readonly string[];
  readonly place: string;
}

/** Settings for external monitoring. */
export interface TelemetryConfig {
  readonly metrics: 'token' | 'open';
  readonly otlp: OtlpConfig | undefined;
}

/** The collector of traces, in OTLP over HTTP. */
export interface OtlpConfig {
  /** Without the path of the OTLP signal. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
}
