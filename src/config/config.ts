import type { JsonObject } from '../base/json.ts';

/** The configuration in force: checked, complete with defaults, frozen. Durations are milliseconds. */
export interface Config {
  /** The file it was read from, absolute. */
  readonly file: string;
  /** What relative paths in it are relative to. */
  readonly directory: string;
  readonly service: ServiceConfig;
  readonly state: StateConfig;
  readonly pluginRoots: readonly PluginRoot[];
  /** By name, disabled ones included; the record has no prototype. */
  readonly plugins: Readonly<Record<string, PluginConfig>>;
  /** What a plugin gets that is found but not listed. */
  readonly pluginDefaults: PluginConfig;
  readonly routes: readonly RouteConfig[];
  readonly api: ApiConfig;
}

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
  readonly prewarm: number;
  readonly place: string;
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
  readonly place: string;
}

export interface ApiConfig {
  readonly enabled: boolean;
  readonly host: string;
  readonly port: number;
}
