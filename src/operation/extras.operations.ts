/** Operations whose work is done in `extras/`. */
import { DuctileError } from '../base/errors.ts';
import { FILES_HERE, onFiles } from '../config/operations.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import {
  newPluginInput,
  newPluginOutput,
  proveInput,
  proveOutput,
  testPluginInput,
  testPluginOutput,
  type Prover,
  type Workshop,
} from './extras.ts';

export const proveSystem = defineOperation({
  name: 'system.prove',
  summary: 'Crash-test a copy of your installation and check that no work is lost or duplicated.',
  // It starts and kills processes, but only its own.
  effect: 'write',
  isForRoot: true,
  scope: 'system:rw',
  needs: 'files',
  input: proveInput,
  output: proveOutput,
  errors: [
    'BACKUP_INVALID',
    'CONFIG_INVALID',
    'INPUT_INVALID',
    'LEDGER_OLDER',
    'LEDGER_UNAVAILABLE',
    'PIPELINE_NOT_FOUND',
  ],
  http: { absent: `${FILES_HERE}, and it takes minutes` },
  cli: {
    alias: { name: 'prove' },
    examples: [
      'ductile prove',
      'ductile prove --minutes 10 --seed 7',
      'ductile prove --pipeline photos --json',
    ],
    exitCode: ({ verdict }) => (verdict === 'kept' ? 0 : 1),
  },
  mcp: { absent: 'it takes minutes and much CPU time; run `ductile prove` instead' },
  run: async (context, request) => (await loadProver(context)).run(request),
  plan: async (context, request) => (await loadProver(context)).plan(request),
});

function loadProver({ configFiles }: Context): Promise<Prover> {
  if (configFiles?.extras !== undefined) return configFiles.extras.loadProver();
  throw new DuctileError('INTERNAL', 'system.prove has no prover in this context');
}

export const makePlugin = defineOperation({
  name: 'plugin.new',
  summary: 'Create a working plugin from a template.',
  effect: 'write',
  ...onFiles,
  scope: 'config:rw',
  input: newPluginInput,
  output: newPluginOutput,
  errors: ['INPUT_INVALID', 'PLUGIN_EXISTS'],
  cli: {
    command: 'plugin create',
    positionals: ['plugin'],
    paths: ['dir'],
    examples: [
      'ductile plugin create disk-space --lang python',
      'ductile plugin create greet --lang ts --dir ./plugins/greet',
    ],
  },
  run: async (context, request) => (await loadWorkshop(context)).createPlugin(request),
  plan: async (context, request) => (await loadWorkshop(context)).planCreate(request),
});

export const testPlugin = defineOperation({
  name: 'plugin.test',
  summary: 'Run a plugin as the service does, and check that it follows the protocol.',
  // It runs the program in that directory.
  effect: 'write',
  ...onFiles,
  scope: 'config:rw',
  input: testPluginInput,
  output: testPluginOutput,
  errors: ['INPUT_INVALID', 'PLUGIN_NOT_FOUND', 'SPAWNER_FAILED'],
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
