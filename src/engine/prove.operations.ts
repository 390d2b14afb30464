import { DuctileError } from '../base/errors.ts';
import { FILES_HERE } from '../config/operations.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { proveInput, proveOutput, type Prover } from '../operation/extras.ts';

export const proveSystem = defineOperation({
  name: 'system.prove',
  summary: 'Kill a copy of the system again and again while it works, and see what is lost.',
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
  mcp: { absent: 'it takes minutes and both cores; run `ductile prove` instead' },
  run: async (context, request) => (await loadProver(context)).run(request),
  plan: async (context, request) => (await loadProver(context)).plan(request),
});

function loadProver({ configFiles }: Context): Promise<Prover> {
  if (configFiles?.extras !== undefined) return configFiles.extras.loadProver();
  throw new DuctileError('INTERNAL', 'system.prove has no prover in this context');
}
