import * as z from 'zod';
import { defineOperation } from '../../operation/define.ts';
import { explanationShape, subjectKinds } from './explanation.ts';
import { explainRecord } from './explain.ts';
import { explainFinding } from './finding.ts';
import { findSubject, kindScopes, listVisibleKinds } from './find-subject.ts';
import { type FindingCategory, fileConditions, type LiveFinding } from '../finding.ts';
import type { Context } from '../../operation/context.ts';
import { systemDoctor } from '../doctor.operations.ts';
import { findingsShape } from '../findings.service.ts';
import { allows } from '../../access/scopes.ts';

export const explainWhy = defineOperation({
  name: 'why.explain',
  summary: 'Explain why something ran, did not run or waits, and when and how it continues.',
  effect: 'read',
  scope: ({ principal }, { kind }) =>
    kindScopes[kind === 'any' ? (listVisibleKinds(principal)[0] ?? 'job') : kind],
  input: z.strictObject({
    id: z
      .string()
      .trim()
      .min(1)
      .max(200)
      .describe(
        'an id or the start of it, the id of a finding, or a name: <plugin>/<schedule>, ' +
          '<plugin>/<command>, a plugin, a pipeline or a webhook',
      ),
    kind: z
      .enum([...subjectKinds, 'any'])
      .default('any')
      .describe('kind of the object (default: found by its name)'),
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
    if (inFiles !== undefined) return explainFinding(inFiles);
    return await explainRecord(context, await findSubject(context, id, kind));
  },
});

/** Matches ids of findings in files: `<category>:<key>`, or `<category>:<location>` without a key. */
const idPattern = new RegExp(`^(${Object.keys(fileConditions).join('|')}):`);

/** Finds a finding of `doctor` that isn't on the ledger, by its id. */
async function findFileFinding(context: Context, id: string): Promise<LiveFinding | undefined> {
  const { principal, engine } = context;
  const isAllowed = engine.tenant === undefined && allows(principal.scopes, kindScopes.finding);
  if (!idPattern.test(id) || !isAllowed) return undefined;
  const { findings } = findingsShape.parse(await systemDoctor.run(context, {}));
  const found = findings.find((finding) => finding.id === id);
  if (found === undefined) return undefined;
  const { severity, key, message, place, evidence, fix, commands } = found;
  const category = found.category as FindingCategory;
  const text = key === '' ? message : `${key} ${message}`;
  const named = { kind: category, key: id.slice(id.indexOf(':') + 1), message: text };
  return { ...named, severity, category, evidence: evidence ?? place, fix, commands };
}
