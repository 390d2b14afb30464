/**
 * The contracts of the functions in `extras/`, which are loaded on demand: the prover of `system.prove`, and
 * the workshop of `plugin.new` and `plugin.test`.
 */
import * as z from 'zod';

const MINUTES_MAX = 24 * 60;
const SEED_MAX = 1_000_000_000;

export const proveInput = z.strictObject({
  minutes: z
    .number()
    .positive()
    .max(MINUTES_MAX)
    .default(1)
    .describe('minutes of killing processes (default: 1); started work finishes afterwards'),
  seed: z
    .int()
    .min(0)
    .max(SEED_MAX)
    .default(1)
    .describe('number that decides which process is killed when (default: 1)'),
  pipeline: z.string().min(1).optional().describe('test only this pipeline'),
});

const spread = z
  .object({ n: z.int(), p50: z.number(), p99: z.number(), max: z.number() })
  .nullable()
  .describe('null if it was never measured');

export const proveOutput = z.object({
  verdict: z
    .enum(['kept', 'broken', 'untried'])
    .describe('`untried`: nothing was started or nothing was killed'),
  seed: z.int(),
  seconds: z.int(),
  ledger: z.object({
    kind: z.enum(['sqlite', 'postgres']),
    bytes: z.int().describe('size of the copied database'),
    jobs: z.int(),
    runs: z.int(),
    left_out: z.int().describe('jobs and runs in progress, which are not in the copy'),
  }),
  tried: z.array(
    z.object({
      name: z.string(),
      kind: z.enum(['pipeline', 'command']),
      times: z.int(),
      jobs: z.int().describe('jobs that one start leads to'),
      payload: z.string().describe('source of the payload'),
      in_peace: z.string().describe('outcome without kills'),
    }),
  ),
  stubbed: z.array(
    z.object({
      command: z.string(),
      step: z.string().nullable().describe('pipeline step of the stub; null for every use'),
      by: z.enum(['recorded', 'output_schema', 'echo']).describe('source of the stub response'),
      job_id: z.string().nullable().describe('job whose recorded response is used'),
      without: z.string().nullable().describe('part that was removed from the recorded response'),
    }),
  ),
  untried: z.array(z.object({ what: z.string(), why: z.string() })),
  changes: z.array(z.string()).describe('differences from the configuration during the test'),
  kills: z.object({
    engine: z.int(),
    at_points: z.int().describe('engine kills at a named point in the program'),
    spawner: z.int(),
    plugin: z.int(),
  }),
  jobs: z.int().describe('jobs that plugin processes were started for'),
  repeated: z.int().describe('attempts that were repeated after an interruption'),
  lost: z.int(),
  twice: z.int(),
  different: z.int().describe('outcomes that differ from the one without kills'),
  damaged: z.int().describe('new contradictions in the database'),
  broken: z.array(z.string()).describe('description of each violation'),
  recovery_ms: z
    .object({ engine: spread, spawner: spread, plugin: spread })
    .describe('time from a kill until a plugin process starts again'),
});

export type ProveRequest = z.output<typeof proveInput>;
export type Proof = z.output<typeof proveOutput>;

/** Tests the configured pipelines and schedules on a copy of the ledger, with stand-ins for the plugins. */
export interface Prover {
  /** Describes what `run` would do, in sentences. */
  plan(request: ProveRequest): Promise<string[]>;
  run(request: ProveRequest): Promise<Proof>;
}

export const pluginLanguages = ['ts', 'python', 'sh'] as const;
export type PluginLanguage = (typeof pluginLanguages)[number];

/** Names that are also valid in YAML, in an event type and as the name of a directory. */
const PLUGIN_NAME = /^(?!(?:true|false|null)$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;
const PLUGIN_NAME_RULE = 'must be lowercase letters, digits and single hyphens, such as disk-space';

export const newPluginInput = z.strictObject({
  plugin: z.string().max(64).regex(PLUGIN_NAME, PLUGIN_NAME_RULE).describe('name of the plugin'),
  lang: z.enum(pluginLanguages).describe('language of the plugin'),
  dir: z
    .string()
    .optional()
    .describe(
      'directory of the plugin (default: in your plugin root, or in the current directory)',
    ),
});

export const newPluginOutput = z.object({
  plugin: z.string(),
  directory: z.string(),
  files: z.array(z.string()),
  enable: z.string().nullable().describe('change that is needed before Ductile finds the plugin'),
  next: z.array(z.string()).describe('commands to run next'),
});

const jsonObject = z.record(z.string(), z.unknown());

export const testPluginInput = z.strictObject({
  directory: z.string().describe('directory with the manifest.yaml'),
  command: z.string().optional().describe('test only this command, even if it writes'),
  payload: jsonObject
    .optional()
    .describe('payload for that command (default: that of its example, or {})'),
  settings: jsonObject
    .optional()
    .describe('configuration of the plugin (default: that of its examples)'),
  all: z.boolean().optional().describe('also run commands that write'),
});

export const testPluginOutput = z.object({
  directory: z.string(),
  plugin: z.string().nullable(),
  passed: z.boolean().describe('true if no check failed'),
  findings: z.array(
    z.object({
      check: z.string(),
      command: z.string().nullable(),
      verdict: z.enum(['passed', 'hint', 'warning', 'failed', 'skipped']),
      seen: z.string().describe('observed behavior'),
      means: z.string().nullable().describe('effect in the service'),
      mend: z.string().nullable().describe('how to fix it'),
    }),
  ),
});

export type NewPluginRequest = z.output<typeof newPluginInput>;
export type NewPluginResult = z.output<typeof newPluginOutput>;
export type TestPluginRequest = z.output<typeof testPluginInput>;
export type TestPluginResult = z.output<typeof testPluginOutput>;

/** Creates plugins from the SDK's template, and tests whether a plugin follows the protocol. */
export interface Workshop {
  createPlugin(request: NewPluginRequest): Promise<NewPluginResult>;
  planCreate(request: NewPluginRequest): Promise<string[]>;
  testPlugin(request: TestPluginRequest): Promise<TestPluginResult>;
  planTest(request: TestPluginRequest): Promise<string[]>;
}

/** Functions that are loaded on demand from `extras/`. */
export interface Extras {
  loadProver(): Promise<Prover>;
  loadWorkshop(): Promise<Workshop>;
}
