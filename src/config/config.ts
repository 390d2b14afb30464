import type { JsonObject } from '../base/json.ts';
import type { Approvals } from '../directive/approval.ts';
import type { PipelineEntry } from '../pipeline/language/entry.ts';
import type { QuietHours } from '../schedule/window.ts';
import type { Schedule } from '../schedule/schedule.ts';
import type { Order } from '../webhook/check.ts';
import type { EventRules } from '../webhook/event-type.ts';
import type { HmacScheme } from '../webhook/verify/hmac.ts';
import type { Template } from '../pipeline/language/template.ts';
import type { Problem } from './problem.ts';

/** The configuration in force: checked, complete with defaults, frozen. Durations are milliseconds. */
export interface Config {
  /** The file it was read from, absolute. */
  readonly file: string;
  /** What relative paths in it are relative to. */
  readonly directory: string;
  readonly service: ServiceConfig;
  readonly state: StateConfig;
  readonly pluginRoots: readonly PluginRoot[];
  /** Where packages are looked for, besides those that come with the program. */
  readonly packageRoots: readonly PluginRoot[];
  /** By name, disabled ones included; the record has no prototype. */
  readonly plugins: Readonly<Record<string, PluginConfig>>;
  /** What a plugin gets that is found but not listed. */
  readonly pluginDefaults: PluginConfig;
  /** The limits of plugins that have none of their own. */
  readonly pluginLimits: ResourceLimits;
  /** By name, the isolation that the files set for a plugin. Others that use its code have it too. */
  readonly pluginIsolation: Readonly<Record<string, IsolationConfig>>;
  /** Whether what is found but not listed is not there, as it is for tenants. */
  readonly onlyListed: boolean;
  readonly routes: readonly RouteConfig[];
  readonly pipelines: readonly PipelineEntry[];
  /** What signals ask for by directive; only installations bring them. */
  readonly handlers: readonly HandlerConfig[];
  readonly directives: DirectivesConfig;
  readonly tenants: TenantsConfig;
  readonly api: ApiConfig;
  readonly webhooks: WebhooksConfig;
  readonly telemetry: TelemetryConfig;
  /** Every file that was read, in the order in which they were merged. */
  readonly files: readonly ConfigFile[];
  /** Whether there is a `.checksums` to compare the files with. */
  readonly isLocked: boolean;
  /** Changes whenever anything in force does; it tells nothing about the secrets in it. */
  readonly fingerprint: string;
  /** The keys as they are written, with defaults filled in and secrets taken out. */
  readonly redacted: Readonly<JsonObject>;
  /** What does not keep it from being used. */
  readonly warnings: readonly Problem[];
}

export interface ConfigFile {
  /** Absolute. */
  readonly path: string;
  readonly tier: Tier;
  /** BLAKE3 of its bytes, in hexadecimal. */
  readonly hash: string;
}

/** What is in the `high` tier decides who may do what: it is never used unless it is locked. */
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
  /** How often schedules are looked at. */
  readonly tickIntervalMs: number;
  /** The time zone of schedules that name none, by its IANA name. */
  readonly timezone: string;
  /** Those of schedules and webhooks that say nothing else. */
  readonly quietHours: QuietHours;
  readonly breakerTransitionsRetentionMs: number;
  readonly admission: AdmissionConfig;
}

/** What keeps a process from starting that could start. */
export interface AdmissionConfig {
  /** Nothing is used that was never locked. */
  readonly verifyIntegrityOnBoot: boolean;
  /** Nothing is used that changed after it was locked. */
  readonly failOnDrift: boolean;
  /** Plugins that do not load and warnings count as errors. */
  readonly validateConfigOnBoot: boolean;
  /** Discovery needs a token too. */
  readonly requireApiAuth: boolean;
}

/** Where the root ledger is, and the directory for the lock, the socket and other ledgers. */
export type StateConfig =
  | { readonly kind: 'sqlite'; readonly path: string; readonly dir: string }
  | {
      readonly kind: 'postgres';
      /** Without the `schema` parameter, which is ours and not the driver's. */
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
  /** By command; a command that is not here has the default of commands of its own kind. */
  readonly timeoutsMs: Readonly<Record<string, number>>;
  /** Undefined when the operator left it open. */
  readonly parallelism: number | undefined;
  /** Limits for all processes of one attempt together. */
  readonly limits: ResourceLimits;
  /** Undefined when the operator left it open. */
  readonly prewarm: number | undefined;
  readonly schedules: readonly Schedule[];
  readonly circuitBreaker: CircuitBreakerConfig;
  /** Queued and running polls of one schedule before it waits. */
  readonly maxOutstandingPolls: number;
  /** Whether the end of each of its jobs that isn't a step of a run is reported: `job.succeeded`. */
  readonly notifyOnComplete: boolean;
  /** What its jobs may ask of the API while they run; undefined when they are given no access. */
  readonly apiAccess: ApiAccess | undefined;
  /** Whether every tenant has it too. */
  readonly shared: boolean;
  /** How its processes are confined; undefined when they aren't, except in a tenant. */
  readonly isolation: IsolationConfig | undefined;
  readonly place: string;
}

/** Undefined is not said here; 0 is unlimited, whatever a default says. */
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
  /** Where each of them is written. */
  readonly places: readonly string[];
}

export interface CircuitBreakerConfig {
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
  /** Undefined when only `to` says it. */
  readonly command: string | undefined;
  readonly shared: boolean;
  readonly place: string;
}

/** A signal that asks for a directive, on behalf of the installation that brought it. */
export interface HandlerConfig {
  /** `<slug>/<place>`; with the signal it makes the key of what is asked for. */
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

export interface DirectivesConfig {
  /** What waits until somebody approves it. */
  readonly approval: Approvals;
}

export interface TenantsConfig {
  /** `isolated`: with a tenant, plugins do not see the directories of the state and configuration. */
  readonly trust: 'isolated' | 'shared';
  /** Isolation settings for plugin processes of all tenants. */
  readonly isolation: IsolationConfig;
  /** How long one in which nothing is to be done stays awake after the last visit. */
  readonly idleMs: number;
  /** For plugins of tenants that have no limits of their own. */
  readonly limits: ResourceLimits;
}

export interface ApiConfig {
  readonly enabled: boolean;
  readonly host: string;
  readonly port: number;
  readonly auth: { readonly tokens: readonly ApiToken[] };
  /** Requests that may wait for the end of their job at once. */
  readonly maxConcurrentSync: number;
  readonly maxSyncTimeoutMs: number;
  /** Origins of web pages that may ask; `*` is any. */
  readonly allowedOrigins: readonly string[];
  /** Whether plugins, skills and OpenAPI are shown to everybody. */
  readonly discovery: 'open' | 'token';
  /** Whether `/events` takes its token from the query, for browsers that cannot send a header. */
  readonly sseQueryToken: boolean;
  /** Addresses and subnets of proxies whose `X-Forwarded-For` counts. */
  readonly trustedProxies: readonly string[];
}

export interface WebhooksConfig {
  /** Whether they have a listener of their own. */
  readonly enabled: boolean;
  readonly host: string;
  readonly port: number;
  /** In which order a delivery is checked. */
  readonly order: Order;
  /** The plugin that answers for webhooks with a mode. */
  readonly agent: string;
  /** Addresses and subnets whose word about where a request came from counts. */
  readonly trustedProxies: readonly string[];
  /** What senders see of the address, without a path. */
  readonly publicUrl: string | undefined;
  readonly endpoints: readonly EndpointConfig[];
}

/** A webhook that the files say: its path, what it starts, and how it is signed. */
export interface EndpointConfig {
  readonly path: string;
  readonly plugin: string;
  readonly command: string;
  readonly secretRef: string;
  /** Undefined when `tokens.yaml` has none of that name: then it is a credential. */
  readonly secret: string | undefined;
  readonly auth: HmacScheme;
  readonly eventRules: EventRules;
  readonly maxBodyBytes: number;
  /** How long a sender is kept on the line for what its delivery came to; not at all when zero. */
  readonly waitMs: number;
  readonly place: string;
}

export interface ApiToken {
  readonly name: string;
  /** SHA-256 of the token, in hexadecimal; the token itself is not kept. */
  readonly digest: string;
  readonly scopes: readonly string[];
  readonly place: string;
}

/** What is told to monitors outside. */
export interface TelemetryConfig {
  /** Whether `/metrics` needs a token. */
  readonly metrics: 'token' | 'open';
  readonly otlp: OtlpConfig | undefined;
}

/** Where traces go, in OTLP over HTTP. */
export interface OtlpConfig {
  /** Without the path of the signal. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
}
