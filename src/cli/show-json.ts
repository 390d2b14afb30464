import type { JsonOutput } from '../operation/define.ts';
import { checkFieldNames, readFieldNames } from '../operation/result/pick-fields.ts';
import type { Input } from './ask.ts';
import type { CommandDefinition } from './commands.ts';
import { fitResult, type FitOptions, type FittedResult } from './fit-result.ts';
import type { Common, Session } from './host.ts';
import { printFitted } from './print-json.ts';
import { repeatCommand } from './repeat-command.ts';

export interface ShownResult {
  readonly definition: CommandDefinition;
  readonly options: Common;
  readonly input: Input;
  readonly output: JsonOutput;
  /** Asks again, for fewer rows. */
  readonly look: (input: Input) => Promise<JsonOutput>;
}

/** Prints a result as JSON that fits; see `limits.resultBytes`. */
export async function showJson(session: Session, shown: ShownResult): Promise<void> {
  const { io, argv } = session;
  const { definition, options, input, output } = shown;
  const fit = fitOf(definition, options, { argv, keepRows: input['limit'] !== undefined });
  const fitted = fitResult(output, fit);
  printFitted(io, (await fetchLess(session, shown, { fit, fitted })) ?? fitted, fit.isFull);
}

export function fitOf(
  { result }: CommandDefinition,
  { full = false, fields }: Common,
  { argv, keepRows }: { readonly argv: readonly string[]; readonly keepRows: boolean },
): FitOptions {
  const more = [repeatCommand(argv, ['--full'])];
  return { shape: result, isFull: full, keepRows, fields, more };
}

/** Refuses names that no result of the command has, before anything is asked. */
export function checkFields({ result }: CommandDefinition, { fields }: Common): void {
  if (fields !== undefined) checkFieldNames(readFieldNames(fields), result);
}

/**
 * Fetches a page again with as many rows as fit, so that its cursor continues after the last row that
 * is printed. Undefined when the result isn't a page, or all of its rows fit.
 */
async function fetchLess(
  { argv }: Session,
  { definition, input, output, look }: ShownResult,
  { fit, fitted }: { readonly fit: FitOptions; readonly fitted: FittedResult },
): Promise<FittedResult | undefined> {
  const { rows } = definition.result;
  const names = definition.fields.map(({ field }) => field);
  const isPaged = names.includes('limit') && (names.includes('cursor') || names.includes('after'));
  if (rows === undefined || !isPaged || fit.isFull || fit.keepRows) return undefined;
  const [count, fits] = [output, fitted.value].map((one) => countRows(one, rows.field));
  if (count === undefined || fits === undefined || fits >= count || fits === 0) return undefined;
  const less = await look({ ...input, limit: fits });
  const part = { at: `/${rows.field}`, kind: 'page', total: count, shown: fits };
  const next = less['next_cursor'] ?? less['cursor'];
  const flag = names.includes('cursor') ? '--cursor' : '--after';
  const more = [
    ...(typeof next === 'string' ? [repeatCommand(argv, [flag, next])] : []),
    repeatCommand(argv, ['--limit', String(count)]),
  ];
  const again = fitResult(less, { ...fit, more, before: [part] });
  return countRows(again.value, rows.field) === fits ? again : undefined;
}

function countRows(output: JsonOutput, field: string): number | undefined {
  const rows = output[field];
  return Array.isArray(rows) ? rows.length : undefined;
}
