import { DuctileError } from '../base/errors.ts';
import { FILES_HERE } from '../config/operations.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { proveInput, proveOutput, type Prover } from './prover.ts';

export const proveSystem = defineOperation({
  name: 'system.prove',
  summary: 'Kill a copy of the system again and again while it works, and see what is lost.',
  // It starts processes and kills them, though none that anybody relies on.
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
  run: (context, wish) => proverOf(context).run(wish),
  plan: (context, wish) => proverOf(context).plan(wish),
});

function proverOf({ place }: Context): Prover {
  if (place?.prover !== undefined) return place.prover;
  throw new DuctileError('INTERNAL', 'nobody here can try things out');
}
