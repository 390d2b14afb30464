import { DuctileError } from '../base/errors.ts';
import { FILES_HERE } from '../config/operations.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import {
  newPluginInput,
  newPluginOutput,
  testPluginInput,
  testPluginOutput,
  type Workshop,
} from '../plugin/workshop.ts';

export const makePlugin = defineOperation({
  name: 'plugin.new',
  summary: 'Make a plugin that works at once, to be changed into yours.',
  effect: 'write',
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input: newPluginInput,
  output: newPluginOutput,
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
  run: async (context, request) => (await loadWorkshop(context)).createPlugin(request),
  plan: async (context, request) => (await loadWorkshop(context)).planCreate(request),
});

export const testPlugin = defineOperation({
  name: 'plugin.test',
  summary: 'Run a plugin as the runtime would, and say how it keeps to the protocol.',
  // It runs the program in that directory.
  effect: 'write',
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input: testPluginInput,
  output: testPluginOutput,
  errors: ['INPUT_INVALID', 'PLUGIN_NOT_FOUND', 'SPAWNER_FAILED'],
  http: { absent: FILES_HERE },
  cli: {
    positionals: ['directory'],
    paths: ['directory'],
    examples: [
      'ductile plugin test ./plugins/greet',
      'ductile plugin test ./plugins/greet --command handle --payload \'{"name": "Ann"}\'',
      'ductile plugin test ./plugins/greet --all --json',
    ],
    exitCode: ({ passed }) => (passed === true ? 0 : 1),
  },
  run: async (context, request) => (await loadWorkshop(context)).testPlugin(request),
  plan: async (context, request) => (await loadWorkshop(context)).planTest(request),
});

function loadWorkshop({ configFiles }: Context): Promise<Workshop> {
  if (configFiles?.extras !== undefined) return configFiles.extras.loadWorkshop();
  throw new DuctileError('INTERNAL', 'plugin.new and plugin.test have no workshop in this context');
}
