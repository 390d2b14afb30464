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
    .describe('how long things are killed; what was begun is finished after that'),
  seed: z.int().min(0).max(SEED_MAX).default(1).describe('decides what is killed, and when'),
  pipeline: z.string().min(1).optional().describe('only this one'),
});

const spread = z
  .object({ n: z.int(), p50: z.number(), p99: z.number(), max: z.number() })
  .nullable()
  .describe('null when it was never measured');

export const proveOutput = z.object({
  verdict: z
    .enum(['kept', 'broken', 'untried'])
    .describe('`untried`: nothing was started, or nothing was killed'),
  seed: z.int(),
  seconds: z.int(),
  ledger: z.object({
    kind: z.enum(['sqlite', 'postgres']),
    bytes: z.int().describe('of the copy that was worked on'),
    jobs: z.int(),
    runs: z.int(),
    left_out: z.int().describe('jobs and runs that were under way: the copy is without them'),
  }),
  tried: z.array(
    z.object({
      name: z.string(),
      kind: z.enum(['pipeline', 'command']),
      times: z.int(),
      jobs: z.int().describe('that follow from one'),
      payload: z.string().describe('where it is from'),
      in_peace: z.string().describe('what one comes to when nothing is killed'),
    }),
  ),
  stubbed: z.array(
    z.object({
      command: z.string(),
      step: z.string().nullable().describe('as which step of a pipeline; else wherever'),
      by: z.enum(['recorded', 'output_schema', 'echo']).describe('what answered for it'),
      job_id: z.string().nullable().describe('whose answer it was, when it is a recorded one'),
      without: z.string().nullable().describe('what was taken away from the recorded answer'),
    }),
  ),
  untried: z.array(z.object({ what: z.string(), why: z.string() })),
  changes: z.array(z.string()).describe('what was otherwise than in the configuration'),
  kills: z.object({
    engine: z.int(),
    at_points: z.int().describe('of these, at a named place in the program'),
    spawner: z.int(),
    plugin: z.int(),
  }),
  jobs: z.int().describe('that plugins were started for'),
  repeated: z.int().describe('attempts that were begun again because one was cut off'),
  lost: z.int(),
  twice: z.int(),
  different: z.int().describe('those that came to something else than in peace'),
  damaged: z.int().describe('contradictions that the ledger has since'),
  broken: z.array(z.string()).describe('what each of these is, as far as can be shown'),
  recovery_ms: z
    .object({ engine: spread, spawner: spread, plugin: spread })
    .describe('from a kill until a plugin is started again'),
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
  plugin: z
    .string()
    .max(64)
    .regex(PLUGIN_NAME, PLUGIN_NAME_RULE)
    .describe('what it is to be called'),
  lang: z.enum(pluginLanguages).describe('what it is to be written in'),
  dir: z
    .string()
    .optional()
    .describe('its directory; unless given, in the plugin root beside your configuration, or here'),
});

export const newPluginOutput = z.object({
  plugin: z.string(),
  directory: z.string(),
  files: z.array(z.string()),
  enable: z.string().nullable().describe('what is to be done before the runtime finds it'),
  next: z.array(z.string()).describe('commands to go on with'),
});

const jsonObject = z.record(z.string(), z.unknown());

export const testPluginInput = z.strictObject({
  directory: z.string().describe('where its manifest.yaml is'),
  command: z.string().optional().describe('only this command; it is run though it may write'),
  payload: jsonObject.optional().describe('for that command; else that of its example, or {}'),
  settings: jsonObject.optional().describe('its configuration; else that of its examples'),
  all: z.boolean().optional().describe('run commands that write, too'),
});

export const testPluginOutput = z.object({
  directory: z.string(),
  plugin: z.string().nullable(),
  passed: z.boolean().describe('whether nothing failed'),
  findings: z.array(
    z.object({
      check: z.string(),
      command: z.string().nullable(),
      verdict: z.enum(['passed', 'hint', 'warning', 'failed', 'skipped']),
      seen: z.string().describe('what was seen'),
      means: z.string().nullable().describe('what the runtime does with it'),
      mend: z.string().nullable().describe('how to put it right'),
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
