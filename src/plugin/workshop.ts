/** Input and output of `plugin.new` and `plugin.test`. The work is done in extras/workshop, on demand. */
import * as z from 'zod';

export const pluginLanguages = ['ts', 'python', 'sh'] as const;
export type PluginLanguage = (typeof pluginLanguages)[number];

/** Names that are also valid in YAML, in an event type and as the name of a directory. */
const NAME = /^(?!(?:true|false|null)$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;
const NAME_RULE = 'must be lowercase letters, digits and single hyphens, such as disk-space';

export const newPluginInput = z.strictObject({
  plugin: z.string().max(64).regex(NAME, NAME_RULE).describe('what it is to be called'),
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

const object = z.record(z.string(), z.unknown());

export const testPluginInput = z.strictObject({
  directory: z.string().describe('where its manifest.yaml is'),
  command: z.string().optional().describe('only this command; it is run though it may write'),
  payload: object.optional().describe('for that command; else that of its example, or {}'),
  settings: object.optional().describe('its configuration; else that of its examples'),
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
