import * as z from 'zod';
import { toFinding } from '../config/findings.ts';
import type { Finding } from '../config/findings.ts';
import { readConfig } from '../config/load.ts';
import type { LoadOptions, Reading } from '../config/load.ts';
import { makeProblem } from '../config/problem.ts';
import { diagnose, diagnoseSchemas } from '../engine/doctor.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import { findingsShape, showFindings } from './findings.ts';
import { explainScope } from './scope-check.ts';

export const checkConfig = defineOperation({
  name: 'config.check',
  summary: 'Check the configuration: every finding with its place and what to do.',
  effect: 'read',
  scope: 'config:ro',
  needs: 'files',
  input: z.strictObject({
    fail_on_warnings: z.boolean().optional().describe('exit with 2 when there are warnings'),
  }),
  output: findingsShape.extend({ fail_on_warnings: z.boolean() }),
  errors: ['CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  http: { absent: '`GET /system/doctor` says the same' },
  cli: {
    examples: ['ductile config check', 'ductile config check --fail-on-warnings --json'],
    exitCode: ({ errors, warnings, fail_on_warnings: isStrict }) => {
      if (errors !== 0) return 1;
      return isStrict === true && warnings !== 0 ? 2 : 0;
    },
  },
  async run(context, { fail_on_warnings = false }) {
    const findings = await examineAll(readConfig(loadOptions(context)));
    return { ...showFindings(findings), fail_on_warnings };
  },
});

export const systemDoctor = defineOperation({
  name: 'system.doctor',
  summary: 'Look for everything that is wrong or unwise, and say what to do about it.',
  effect: 'read',
  scope: 'system:ro',
  needs: 'files',
  input: z.strictObject({}),
  output: findingsShape,
  errors: ['CONFIG_NOT_FOUND'],
  http: { method: 'GET', path: '/system/doctor' },
  cli: {
    examples: ['ductile system doctor', 'ductile doctor --json'],
    exitCode: ({ errors }) => (errors === 0 ? 0 : 1),
  },
  async run(context) {
    return showFindings(await examineAll(readConfig(loadOptions(context))));
  },
});

/** Which configuration is meant: the one of the command line, or the one of the server. */
export function loadOptions(context: Context): LoadOptions {
  const { place } = context;
  return { given: place === undefined ? context.engine.config.file : place.given };
}

/** What is worth a validator that takes a moment to load, too. */
async function examineAll(reading: Reading): Promise<Finding[]> {
  return [...examine(reading), ...(await diagnoseSchemas(reading))];
}

/** All that can be found, scopes included, whose meaning only the operations know. */
export function examine(reading: Reading): Finding[] {
  const findings = diagnose(reading, Date.now());
  return [...findings, ...findScopes(reading)];
}

function findScopes({ config }: Reading): Finding[] {
  if (config === undefined) return [];
  const names = new Set(Object.keys(config.plugins));
  return config.api.auth.tokens.flatMap(({ name, scopes, place }) =>
    scopes.flatMap((scope) => {
      const message = explainScope(scope, names);
      if (message === undefined) return [];
      const problem = makeProblem(place, `token ${name}`, message, 'See the page about scopes.');
      return [toFinding('error', 'security', problem)];
    }),
  );
}
