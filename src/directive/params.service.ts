import { hash } from 'node:crypto';
import { DuctileError } from '../base/errors.ts';
import { toCanonicalJson } from '../base/json.ts';
import { describeIssues } from '../config/issues.ts';
import type { DirectiveType } from './directive.ts';

/** Params as their type wants them; what is wrong with them is told with its path. */
export function parseParams(
  definition: Pick<DirectiveType<object>, 'params'>,
  raw: unknown,
): object {
  const parsed = definition.params.safeParse(raw);
  if (parsed.success) return parsed.data;
  const where = { value: raw, problems: [], placeOf: () => '' };
  const wording = { whole: 'params' };
  const problems = describeIssues(parsed.error.issues, definition.params, where, wording);
  const message = problems.map(({ key, message: said }) => `${key} ${said}`.trim()).join('; ');
  const place = ['params', problems[0]?.key ?? ''].filter((part) => part !== '').join('.');
  throw new DuctileError('INPUT_INVALID', message, { place });
}

/** Identifies what a caller sent. */
export function digestParams(params: object): string {
  return hash('sha256', toCanonicalJson(params), 'hex');
}
