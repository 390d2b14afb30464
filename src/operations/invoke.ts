import { DuctileError, toDuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { describeIssues } from '../config/issues.ts';
import type { Context } from './context.ts';
import type { JsonOutput, Operation } from './define.ts';

/** The only way to run an operation: checked input in, output or an error of the catalogue out. */
export async function invoke(
  operation: Operation,
  context: Context,
  raw: unknown = {},
): Promise<JsonOutput> {
  try {
    const { dryRun, rest } = takeDryRun(operation, raw);
    const input = parseInput(operation, rest);
    if (!dryRun || operation.plan === undefined) return await operation.run(context, input);
    return { dry_run: true, plan: await operation.plan(context, input) };
  } catch (thrown) {
    throw toDuctileError(thrown);
  }
}

function takeDryRun({ plan }: Operation, raw: unknown): { dryRun: boolean; rest: unknown } {
  if (plan === undefined || !isObject(raw) || !('dry_run' in raw)) {
    return { dryRun: false, rest: raw };
  }
  const { dry_run: dryRun, ...rest } = raw;
  // Somebody who says it in any way must never find that it was done.
  if (typeof dryRun === 'boolean') return { dryRun, rest };
  throw new DuctileError('INPUT_INVALID', 'dry_run must be true or false', { place: 'dry_run' });
}

function parseInput({ input }: Operation, raw: unknown): unknown {
  const parsed = input.safeParse(raw);
  if (parsed.success) return parsed.data;
  const where = { value: raw, problems: [], placeOf: () => '' };
  const problems = describeIssues(parsed.error.issues, input, where);
  const [first] = problems;
  const message = problems.map(({ key, message: said }) => `${key} ${said}`.trim()).join('; ');
  throw new DuctileError('INPUT_INVALID', message, {
    ...(first === undefined || first.key === '' ? {} : { place: first.key }),
    ...(problems.length !== 1 || first?.hint === undefined ? {} : { hint: first.hint }),
  });
}
