import { compact } from '../base/json.ts';
import * as z from 'zod';
import { pluginName } from '../config/fields.ts';
import { requireLoadedPlugin } from './catalog.ts';
import { defineOperation, type Operation } from '../operation/define.ts';
import { describeAll, describePlugin } from '../operation/openapi.ts';

const commandShape = z.object({
  name: z.string(),
  type: z.enum(['read', 'write']),
  description: z.string().nullable(),
  input_schema: z.record(z.string(), z.unknown()).optional(),
  output_schema: z.record(z.string(), z.unknown()).optional(),
});

const plugin = pluginName().describe('the name of the plugin');

export const inspectPlugin = defineOperation({
  name: 'plugin.inspect',
  summary: 'Show a plugin with its commands and their input.',
  effect: 'read',
  scope: (_context, input) => ({ plugin: input.plugin, type: 'read' }),
  offeredWith: 'plugin',
  input: z.strictObject({ plugin }),
  output: z.object({
    name: z.string(),
    uses: z.string().nullable(),
    version: z.string(),
    description: z.string().nullable(),
    protocol: z.int(),
    parallelism: z.int(),
    commands: z.array(commandShape),
  }),
  errors: ['INPUT_INVALID', 'PLUGIN_NOT_FOUND'],
  http: { method: 'GET', path: '/plugin/:plugin' },
  cli: {
    command: 'plugin show',
    positionals: ['plugin'],
    examples: ['ductile plugin show echo'],
  },
  run(context, input) {
    const { name, uses, manifest, parallelism } = requireLoadedPlugin(
      context.engine.catalog,
      input.plugin,
    );
    return Promise.resolve({
      name,
      uses: uses ?? null,
      version: manifest.version,
      description: manifest.description ?? null,
      protocol: manifest.protocol,
      parallelism,
      commands: Object.values(manifest.commands).map((command) => ({
        name: command.name,
        type: command.type,
        description: command.description ?? null,
        ...compact({ input_schema: command.inputSchema, output_schema: command.outputSchema }),
      })),
    });
  },
});

const documentShape = z.looseObject({ openapi: z.string() });

/** Creates the operation; `runPlugin` runs the commands that it describes. */
export function makePluginOpenapi(runPlugin: Operation): Operation {
  return defineOperation({
    name: 'plugin.openapi',
    summary: 'Describe the commands of one plugin in OpenAPI 3.1.',
    effect: 'read',
    scope: undefined,
    input: z.strictObject({ plugin }),
    output: documentShape,
    errors: ['INPUT_INVALID', 'PLUGIN_NOT_FOUND'],
    http: {
      method: 'GET',
      path: '/plugin/:plugin/openapi.json',
      cachedBy: ({ engine }, params) => engine.catalog.plugins.get(params['plugin'] ?? ''),
    },
    cli: { positionals: ['plugin'], examples: ['ductile plugin openapi echo --json'] },
    mcp: { absent: 'every command is a tool with its own schema' },
    run(context, input) {
      const found = requireLoadedPlugin(context.engine.catalog, input.plugin);
      return Promise.resolve(describePlugin(found, runPlugin));
    },
  });
}

/** Creates the operation; `operations` is a function, because the list includes this one. */
export function makeSystemOpenapi(
  operations: () => readonly Operation[],
  runPlugin: Operation,
): Operation {
  return defineOperation({
    name: 'system.openapi',
    summary: 'Describe the whole API in OpenAPI 3.1, with every command of every plugin.',
    effect: 'read',
    scope: undefined,
    input: z.strictObject({}),
    output: documentShape,
    errors: [],
    http: { method: 'GET', path: '/openapi.json', cachedBy: ({ engine }) => engine.catalog },
    cli: { examples: ['ductile system openapi --json > openapi.json'] },
    mcp: { absent: 'every operation is a tool with its own schema' },
    run: ({ engine }) => Promise.resolve(describeAll(engine.catalog, operations(), runPlugin)),
  });
}

export const systemManifest = defineOperation({
  name: 'system.manifest',
  summary: 'Describe the service to AI agents, with the address of its API description.',
  effect: 'read',
  scope: undefined,
  input: z.strictObject({}),
  output: z.object({
    schema_version: z.string(),
    name_for_human: z.string(),
    name_for_model: z.string(),
    description_for_human: z.string(),
    description_for_model: z.string(),
    auth: z.object({ type: z.string() }),
    api: z.object({ type: z.string(), url: z.string() }),
  }),
  errors: [],
  http: {
    method: 'GET',
    path: '/.well-known/ai-plugin.json',
    cachedBy: ({ engine }) => engine.catalog,
  },
  cli: { absent: 'it is for agents that find the service by its address' },
  mcp: { absent: 'the MCP server sends the same when a client connects' },
  run() {
    return Promise.resolve({
      schema_version: 'v1',
      name_for_human: 'Ductile Gateway',
      name_for_model: 'ductile',
      description_for_human: 'Integration gateway for triggering plugins and pipelines.',
      description_for_model:
        'Discover and invoke plugins. Fetch /openapi.json for the full spec, or ' +
        '/plugin/{name}/openapi.json for a single plugin. Invoke commands via ' +
        'POST /plugin/{name}/{command}.',
      auth: { type: 'bearer' },
      api: { type: 'openapi', url: '/openapi.json' },
    });
  },
});

export const systemIndex = defineOperation({
  name: 'system.index',
  summary: 'Describe the service and list its main endpoints.',
  effect: 'read',
  scope: undefined,
  input: z.strictObject({}),
  output: z.object({
    name: z.string(),
    description: z.string(),
    uptime_seconds: z.int(),
    discovery: z.record(z.string(), z.string()),
  }),
  errors: [],
  http: { method: 'GET', path: '/' },
  cli: { absent: '`system status` and `--help` show the same and more' },
  mcp: { absent: 'the MCP server sends the same when a client connects' },
  run({ engine }) {
    return Promise.resolve({
      name: engine.config.service.name,
      description:
        'Self-hosted automation: plugins, schedules, pipelines and a record of their work.',
      uptime_seconds: Math.floor(engine.status().uptimeMs / 1000),
      discovery: {
        health: '/healthz',
        skills: '/skills',
        plugins: '/plugins',
        openapi: '/openapi.json',
        ai_plugin: '/.well-known/ai-plugin.json',
        dashboard: '/ui',
        documentation: '/docs/',
      },
    });
  },
});
