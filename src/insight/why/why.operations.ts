import * as z from 'zod';
import { defineOperation } from '../../operation/define.ts';
import { explanationShape, kinds } from './explanation.ts';
import { explain } from './explain.ts';
import { findFileFinding } from './file-finding.ts';
import { explainFinding } from './finding.ts';
import { findSubject, kindScopes, kindsSeenBy } from './find-subject.ts';

export const explainWhy = defineOperation({
  name: 'why.explain',
  summary:
    'Say why something ran, did not run, or waits; when it will move, and what would move it.',
  effect: 'read',
  scope: ({ principal }, { kind }) =>
    kindScopes[kind === 'any' ? (kindsSeenBy(principal)[0] ?? 'job') : kind],
  input: z.strictObject({
    id: z
      .string()
      .trim()
      .min(1)
      .max(200)
      .describe(
        'an id or its beginning, the id of a finding, or a name: <plugin>/<schedule>, ' +
          '<plugin>/<command>, a plugin, a pipeline or a webhook',
      ),
    kind: z
      .enum([...kinds, 'any'])
      .default('any')
      .describe('what it is (default: found by its name)'),
  }),
  output: explanationShape,
  errors: [
    'SUBJECT_NOT_FOUND',
    'DELIVERY_NOT_FOUND',
    'DIRECTIVE_NOT_FOUND',
    'INPUT_INVALID',
    'INCIDENT_NOT_FOUND',
    'JOB_NOT_FOUND',
    'LEDGER_UNAVAILABLE',
    'PIPELINE_NOT_FOUND',
    'PLUGIN_NOT_FOUND',
    'RUN_NOT_FOUND',
    'SCHEDULE_NOT_FOUND',
    'SIGNAL_NOT_FOUND',
    'WEBHOOK_NOT_FOUND',
  ],
  http: { method: 'GET', path: '/why/:kind/:id' },
  cli: {
    positionals: ['id'],
    isDefault: true,
    defaults: { kind: 'any' },
    joins: true,
    examples: [
      'ductile why 0199a1b2-c3d4-7e5f',
      'ductile why job 0199a1b2-c3d4-7e5f',
      'ductile why run_halted:deploy',
      'ductile why mail/nightly',
      'ductile why deploys --kind webhook',
    ],
    watch: true,
  },
  async run(context, { kind, id }) {
    const inFiles = kind === 'any' ? await findFileFinding(context, id) : undefined;
    if (inFiles !== undefined) return explainFinding({ finding: inFiles });
    return await explain(context, await findSubject(context, id, kind));
  },
});
