import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { quoteShell } from '../base/text.ts';
import * as z from 'zod';
import type { Config } from '../config/config.ts';
import { readConfig } from '../config/load.ts';
import { languages, listScaffold, scaffold } from '../../extras/workshop/scaffold.ts';
import type { ScaffoldOptions } from '../../extras/workshop/scaffold.ts';
import { FILES_HERE } from '../config/operations.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { loadOptions } from '../config/check.operations.ts';
import { workshopOf } from './workshop.ts';

/** What also reads well in YAML, in a type of event and as the name of a directory. */
const NAME = /^(?!(?:true|false|null)$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;
const NAME_RULE = 'must be lowercase letters, digits and single hyphens, such as disk-space';

const input = z.strictObject({
  plugin: z.string().max(64).regex(NAME, NAME_RULE).describe('what it is to be called'),
  lang: z.enum(languages).describe('what it is to be written in'),
  dir: z
    .string()
    .optional()
    .describe('its directory; unless given, in the plugin root beside your configuration, or here'),
});

export const makePlugin = defineOperation({
  name: 'plugin.new',
  summary: 'Make a plugin that works at once, to be changed into yours.',
  effect: 'write',
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input,
  output: z.object({
    plugin: z.string(),
    directory: z.string(),
    files: z.array(z.string()),
    enable: z.string().nullable().describe('what is to be done before the runtime finds it'),
    next: z.array(z.string()).describe('commands to go on with'),
  }),
  errors: ['INPUT_INVALID', 'PLUGIN_EXISTS'],
  http: { absent: FILES_HERE },
  cli: {
    positionals: ['plugin'],
    paths: ['dir'],
    examples: [
      'ductile plugin new disk-space --lang python',
      'ductile plugin new greet --lang ts --dir ./plugins/greet',
    ],
  },
  run(context, asked) {
    const config = configOf(context);
    const options = optionsOf(context, asked, config);
    const { directory, name } = options;
    const files = scaffold(options);
    const roots = config?.pluginRoots.map(({ path }) => path) ?? [];
    const isFound = roots.some((root) => directory === root || dirname(directory) === root);
    const where = quoteShell(directory);
    const enable = `Add ${JSON.stringify(dirname(directory))} to plugin_roots in config.yaml.`;
    return Promise.resolve({
      plugin: name,
      directory,
      files,
      enable: isFound ? null : enable,
      next: [
        `ductile plugin test ${where} --all`,
        `ductile plugin run ${name} --command handle --payload '{"name": "Ann"}'`,
      ],
    });
  },
  plan(context, asked) {
    const files = listScaffold(optionsOf(context, asked, configOf(context)));
    return Promise.resolve(files.map((file) => `${file} would be written.`));
  },
});

function optionsOf(
  context: Context,
  { plugin, lang, dir }: z.output<typeof input>,
  config: Config | undefined,
): ScaffoldOptions {
  const { sdk } = workshopOf(context);
  const directory = resolve(dir ?? join(ownRoot(config) ?? '.', plugin));
  return { name: plugin, language: lang, directory, sdk };
}

/** The first plugin root that belongs to the configuration, and not to the program. */
function ownRoot(config: Config | undefined): string | undefined {
  const roots = config?.pluginRoots.map(({ path }) => path) ?? [];
  return roots.find((path) => dirname(path) === config?.directory && existsSync(path));
}

/** A plugin can be made before there is a configuration, and while it is broken. */
function configOf(context: Context): Config | undefined {
  try {
    return readConfig(loadOptions(context)).config;
  } catch {
    return undefined;
  }
}
