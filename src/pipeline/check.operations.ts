import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { valueAt } from '../config/address.ts';
import type { Finding } from '../config/findings.ts';
import { readConfig } from '../config/load.ts';
import { suggest } from '../config/nearest.ts';
import { defineOperation } from '../operation/define.ts';
import { listConfigFindings, loadOptions } from '../config/check.operations.ts';
import { findingsShape, showFindings } from '../insight/findings.service.ts';

export const checkPipeline = defineOperation({
  name: 'pipeline.check',
  summary: 'Check the pipelines in the configuration files, those that are not in force yet too.',
  effect: 'read',
  scope: 'config:ro',
  needs: 'files',
  input: z.strictObject({
    pipeline: z.string().min(1).optional().describe('only this one, and those that it calls'),
  }),
  output: findingsShape,
  errors: ['CONFIG_NOT_FOUND', 'INPUT_INVALID', 'PIPELINE_NOT_FOUND'],
  http: { absent: '`GET /system/doctor` says the same of the whole configuration' },
  cli: {
    positionals: ['pipeline'],
    examples: ['ductile pipeline check', 'ductile pipeline check nightly-report --config .'],
    exitCode: ({ errors }) => (errors === 0 ? 0 : 1),
  },
  run(context, { pipeline }) {
    const reading = readConfig(loadOptions(context));
    const findings = listConfigFindings(reading).filter(isAboutPipelines);
    const written = valueAt(reading.document.value, ['pipelines']);
    const meant = pipeline === undefined ? undefined : placesOf(pipeline, written);
    const shown = findings.filter(({ key }) => {
      const [, index] = /^pipelines\[(\d+)\]/.exec(key) ?? [];
      return meant === undefined || index === undefined || meant.has(Number(index));
    });
    return Promise.resolve(showFindings(shown));
  },
});

/** What keeps pipelines from being looked at is about them too. */
function isAboutPipelines({ category, severity, key }: Finding): boolean {
  if (category === 'pipelines' || /^pipelines\b/.test(key)) return true;
  return severity === 'error' && (category === 'content' || category === 'plugins');
}

/** Where a pipeline and those that it calls are written; they may have faults of any kind. */
function placesOf(name: string, written: unknown): Set<number> {
  const entries: readonly unknown[] = Array.isArray(written) ? written : [];
  const names = entries.map((entry) => valueAt(entry, ['name']));
  if (!names.includes(name)) {
    const known = names.filter((one) => typeof one === 'string');
    throw new DuctileError('PIPELINE_NOT_FOUND', `there is no pipeline ${name} in the files`, {
      hint: suggest(name, known, 'pipelines'),
    });
  }
  const places = new Set<number>();
  const visit = (called: string): void => {
    for (const [index, entry] of entries.entries()) {
      if (names[index] !== called || places.has(index)) continue;
      places.add(index);
      callsIn(entry).forEach(visit);
    }
  };
  visit(name);
  return places;
}

function callsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(callsIn);
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'call' && typeof inner === 'string' ? [inner] : callsIn(inner),
  );
}
