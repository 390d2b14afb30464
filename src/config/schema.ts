import { availableParallelism } from 'node:os';
import * as z from 'zod';
import { credentialName, findCredentials } from '../base/credential-ref.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { KEY_VARIABLES } from '../base/seal.ts';
import { count, duration, flag, strictSection, nonBlankText, timer } from '../base/fields.ts';
import { isolationSchema, limitsSchema, tenantLimitsSchema } from './plugin-process.ts';
import { commandName, pluginName, secret, timedCommand, timezone } from './fields.ts';
import { approvalList, approvalMap, type Approvals } from '../directive/approval.ts';
import { oneOfTwoForms } from '../pipeline/language/entry-fields.ts';
import { pipelineSchema } from '../pipeline/language/entry-schema.ts';
import { scheduleEntry } from '../schedule/entry.ts';
import { webhooksSchema } from './webhooks.ts';

/** A process that misses fewer heartbeats isn't presumed dead. */
const BEATS_BEFORE_REAP = 3;

const environmentName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be the name of an environment variable')
  .refine((name) => !KEY_VARIABLES.some((one) => one === name), {
    error: 'is the key of all credentials, which no plugin may see',
  });

const service = strictSection({
  name: nonBlankText().default('ductile'),
  log_level: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  log_format: z.enum(['auto', 'json', 'text']).default('auto'),
  limits: limitsSchema,
  max_workers: count(1).default(() => Math.max(1, availableParallelism() - 1)),
  dedupe_ttl: duration({ maxMs: limits.delayMsMax }).default(limits.dedupeTtlMs),
  job_queue_retention: duration().default(limits.jobQueueRetentionMs),
  job_log_retention: duration().default(limits.jobLogRetentionMs),
  signal_retention: duration().default(limits.signalRetentionMs),
  fact_retention: duration().default(limits.factRetentionMs),
  context_retention: duration().default(limits.contextRetentionMs),
  allow_symlinks: flag().default(false),
  plugin_env_passthrough: z.array(environmentName).default([]),
  shutdown_timeout: timer(0).default(limits.shutdownMs),
  heartbeat_interval: timer(10).default(limits.heartbeatMs),
  reap_after: timer().default(limits.reapAfterMs),
  poll_interval: timer(10).default(limits.pollMs),
  max_crashes: count(1).default(limits.crashesMax),
  max_hops: count(1).default(limits.hopsMax),
  runner_grace: duration({ minMs: 0 }).default(limits.runnerGraceMs),
  spawner: z.enum(['auto', 'native', 'node']).default('auto'),
  tick_interval: timer(100).default(limits.tickMs),
  timezone: timezone().optional(),
  quiet_hours: strictSection({
    start: count(0, 23).optional(),
    end: count(0, 23).optional(),
  }).prefault({}),
  breaker_transitions_retention: duration().default(limits.breakerTransitionsRetentionMs),
  strict_mode: flag().default(false),
  admission: strictSection({
    verify_integrity_on_boot: flag().optional(),
    fail_on_drift: flag().optional(),
    validate_config_on_boot: flag().optional(),
    require_api_auth: flag().optional(),
  }).prefault({}),
})
  .refine((set) => set.job_queue_retention >= set.dedupe_ttl, {
    path: ['job_queue_retention'],
    error: 'must not be shorter than service.dedupe_ttl, or duplicates would be forgotten too soon',
    when: valid('job_queue_retention', 'dedupe_ttl'),
  })
  .refine((set) => set.reap_after >= BEATS_BEFORE_REAP * set.heartbeat_interval, {
    path: ['reap_after'],
    error:
      `must be at least ${BEATS_BEFORE_REAP} times service.heartbeat_interval, ` +
      'or live processes would be presumed dead',
    when: valid('reap_after', 'heartbeat_interval'),
  });

const state = strictSection({
  path: nonBlankText().optional(),
  url: nonBlankText().optional(),
  dir: nonBlankText().optional(),
  schema: nonBlankText().optional(),
})
  .refine((set) => set.path === undefined || set.url === undefined, {
    path: ['url'],
    error: 'and state.path exclude each other',
    params: { hint: 'Keep path for a SQLite file, or url for PostgreSQL.' },
    when: valid('path', 'url'),
  })
  .refine((set) => set.url !== undefined || set.dir === undefined, {
    path: ['dir'],
    error: 'is only for state.url; with state.path it is the directory of that file',
    when: valid('dir', 'url'),
  })
  .refine((set) => set.url !== undefined || set.schema === undefined, {
    path: ['schema'],
    error: 'is only for state.url',
    when: valid('schema', 'url'),
  });

const plugin = strictSection({
  enabled: flag().default(true),
  uses: pluginName().optional(),
  config: z.record(z.string(), z.unknown()).superRefine(checkCredentials).default({}),
  retry: strictSection({
    max_attempts: count(1).default(limits.attemptsMax),
    backoff_base: duration().default(limits.backoffBaseMs),
  }).prefault({}),
  timeouts: z.record(timedCommand(), timer()).default({}),
  parallelism: count(1).optional(),
  limits: limitsSchema,
  prewarm: count(0, limits.prewarmProcessesMax).optional(),
  schedules: z
    .array(scheduleEntry)
    .superRefine(
      refuseRepeated('id', 'is taken by another schedule of this plugin', {
        hint: 'Give each of them an id of its own.',
        usual: 'default',
      }),
      { when: ({ value }) => Array.isArray(value) },
    )
    .default([]),
  circuit_breaker: strictSection({
    threshold: count(1).default(limits.breakerThreshold),
    reset_after: duration().default(limits.breakerResetAfterMs),
  }).prefault({}),
  max_outstanding_polls: count(1).default(1),
  notify_on_complete: flag().default(false),
  api_access: strictSection({ scopes: z.array(nonBlankText()).min(1) }).optional(),
  isolation: isolationSchema.optional(),
  shared: flag().default(false),
});

const route = strictSection({
  from: nonBlankText().optional(),
  event_type: nonBlankText(),
  to: pluginName(),
  command: commandName().optional(),
  shared: flag().default(false),
});

const directives = strictSection({
  approval: oneOfTwoForms<Approvals>((value) => Array.isArray(value), {
    first: approvalList,
    second: approvalMap,
  }).default({}),
});

const tenants = strictSection({
  trust: z.enum(['isolated', 'shared']).default('isolated'),
  idle: timer(0).default(limits.tenantIdleMs),
  limits: tenantLimitsSchema,
  isolation: isolationSchema.prefault({}),
});

const scopes = z.array(nonBlankText());

const api = strictSection({
  enabled: flag().default(false),
  listen: nonBlankText().default('127.0.0.1:8080'),
  auth: strictSection({
    api_key: secret().optional(),
    tokens: z
      .array(
        strictSection({
          name: nonBlankText().optional(),
          token: secret(),
          scopes: scopes.default([]),
        }),
      )
      .default([]),
  }).prefault({}),
  max_concurrent_sync: count(1).default(limits.concurrentSyncMax),
  max_sync_timeout: timer().default(limits.jobWaitMs),
  allowed_origins: z.array(nonBlankText()).default([]),
  discovery: z.enum(['open', 'token']).optional(),
  sse_query_token: flag().default(false),
  trusted_proxies: z.array(nonBlankText()).default([]),
});

const telemetry = strictSection({
  metrics: z.enum(['token', 'open']).default('token'),
  otlp: strictSection({
    endpoint: z.string().refine(isHttp, { error: 'must be an http or https URL without a query' }),
    headers: z
      .record(z.string().regex(/^[\w-]+$/, 'must be the name of a header'), secret())
      .default({}),
  }).optional(),
});

/** The form of `tokens.yaml`. */
const namedToken = strictSection({
  name: nonBlankText(),
  key: secret(),
  scopes: scopes.optional(),
  scopes_file: nonBlankText().optional(),
  scopes_hash: z
    .string()
    .regex(/^blake3:[0-9a-f]{64}$/, 'must be blake3: and 64 hexadecimal digits')
    .optional(),
})
  .refine((set) => set.scopes === undefined || set.scopes_file === undefined, {
    path: ['scopes_file'],
    error: 'and scopes both say what the token may do',
    params: { hint: 'Keep one of them.' },
    when: valid('scopes', 'scopes_file'),
  })
  .refine((set) => set.scopes_hash === undefined || set.scopes_file !== undefined, {
    path: ['scopes_hash'],
    error: 'is only for scopes_file',
    when: valid('scopes_hash', 'scopes_file'),
  });

/** All keys with their defaults. Other keys are refused. */
export const configSchema = strictSection({
  include: z.array(nonBlankText()).default([]),
  environment_vars: strictSection({ include: z.array(nonBlankText()).default([]) }).prefault({}),
  service: service.prefault({}),
  state: state.optional(),
  database: state.optional(),
  plugin_roots: z.array(nonBlankText()).min(1),
  package_roots: z.array(nonBlankText()).default([]),
  plugins: z.record(pluginName(), plugin).default({}),
  routes: z.array(route).default([]),
  pipelines: z
    .array(pipelineSchema)
    .max(limits.pipelinesMax)
    .superRefine(
      refuseRepeated('name', 'is taken by another pipeline', {
        hint: 'Give each of them a name of its own.',
        shown: true,
      }),
      { when: ({ value }) => Array.isArray(value) },
    )
    .default([]),
  directives: directives.prefault({}),
  tenants: tenants.prefault({}),
  api: api.prefault({}),
  webhooks: webhooksSchema.prefault({}),
  telemetry: telemetry.prefault({}),
  tokens: z.array(namedToken).default([]),
}).refine((set) => set.state === undefined || set.database === undefined, {
  path: ['database'],
  error: 'is another name for state; both are given',
  params: { hint: 'Keep state.' },
  when: valid('state', 'database'),
});

export const pluginSchema = plugin;
export const routeSchema = route;

export type ParsedConfig = z.output<typeof configSchema>;
export type ParsedPlugin = z.output<typeof plugin>;

interface IssueContext {
  addIssue(issue: z.core.$ZodSuperRefineIssue): void;
}

/** Finds misspelled references, which the plugin would get as if they were the secret. */
function checkCredentials(config: Readonly<Record<string, unknown>>, context: IssueContext): void {
  // The document has no values that JSON can't represent: reading refuses them.
  for (const { name, path } of findCredentials(config as JsonObject)) {
    if (credentialName.test(name)) continue;
    context.addIssue({
      code: 'custom',
      path: [...path],
      message: 'does not name a credential; write credential:<name>',
      input: name,
    });
  }
}

/** Refuses a second entry with the same name. Also reads entries with other faults. */
function refuseRepeated(
  key: string,
  message: string,
  params: { readonly hint: string; readonly shown?: boolean; readonly usual?: string },
) {
  return (entries: readonly unknown[], context: IssueContext): void => {
    const { usual, ...shown } = params;
    const seen = new Set<string>();
    for (const [index, entry] of entries.entries()) {
      const name = isObject(entry) ? (entry[key] ?? usual) : undefined;
      if (typeof name !== 'string') continue;
      if (seen.has(name)) {
        context.addIssue({
          code: 'custom',
          path: [index, key],
          message,
          params: shown,
          input: name,
        });
      }
      seen.add(name);
    }
  };
}

/**
 * Runs a check across keys even if other keys are wrong, so that all problems are reported at once.
 */
function valid(...keys: readonly string[]) {
  return ({ issues }: z.core.ParsePayload): boolean =>
    !issues.some(({ code, path = [] }) =>
      path.length === 0 ? code !== 'unrecognized_keys' : keys.includes(String(path[0])),
    );
}

function isHttp(text: string): boolean {
  if (text.length > limits.httpUrlCharsMax || !URL.canParse(text)) return false;
  const { protocol, search, hash, username } = new URL(text);
  return ['http:', 'https:'].includes(protocol) && `${search}${hash}${username}` === '';
}
