import { formatByteSize } from '../base/quantity.ts';
import { limits } from '../base/limits.ts';
import { toVisibleText, quoteShell } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import type { CliIo, CommonFlags, CliSession } from './host.ts';
import { compactResult, foldResult } from '../operation/result/compact-result.ts';
import { groupCuts, digest, type ResultCut } from '../operation/result/digest.ts';
import { pickFields, readFieldNames, checkFieldNames } from '../operation/result/pick-fields.ts';
import type { ResultShape } from '../operation/schema.ts';
import type { OperationInput } from './call-operation.ts';
import type { CommandDefinition } from './commands.ts';

/** Prints a result of a command that isn't an operation. */
export function printJson(
  { io, argv }: CliSession,
  options: CommonFlags,
  output: JsonOutput,
): void {
  const { full = false, fields } = options;
  const more = [repeatCommand(argv, ['--full'])];
  printFitted(io, fitResult(output, { ...plainFit, isFull: full, fields, more }), full);
}

/** Prints a result on several lines where they fit, else on one. */
function printFitted(
  { stdout, stderr }: Pick<CliIo, 'stdout' | 'stderr'>,
  { value, wholeBytes }: FittedResult,
  isFull: boolean,
): void {
  const lines = JSON.stringify(value, undefined, 2).split('\n').map(toVisibleText);
  const pretty = `${lines.join('\n')}\n`;
  const isSmall = isFull || Buffer.byteLength(pretty) <= limits.resultBytes;
  stdout.write(isSmall ? pretty : `${toVisibleText(JSON.stringify(value))}\n`);
  if (wholeBytes === undefined || !('cut' in value)) return;
  const [whole, shown] = [wholeBytes, countBytes(value)].map((bytes) => formatByteSize(bytes));
  stderr.write(
    `note: this is ${shown} of ${whole}; \`cut\` lists the omitted parts, --full prints all\n`,
  );
}

/** Prints the latest of some lines: the oldest are left out first. */
export function printLatest(
  { io, argv }: CliSession,
  options: CommonFlags & { readonly limit?: number },
  { name, rows }: { readonly name: string; readonly rows: readonly unknown[] },
): void {
  const { full = false, fields, limit } = options;
  const isCounted = full || limit !== undefined;
  let kept = rows;
  for (;;) {
    const isAll = kept.length === rows.length;
    const part = { at: `/${name}`, kind: 'page', total: rows.length, shown: kept.length };
    const fitted = fitResult(
      { [name]: kept },
      {
        ...plainFit,
        isFull: full,
        keepRows: true,
        fields,
        more: [repeatCommand(argv, isAll ? ['--full'] : ['--limit', String(rows.length)])],
        before: isAll ? [] : [part],
      },
    );
    const isSmall = countBytes(fitted.value) <= limits.resultBytes;
    if (isCounted || isSmall || kept.length <= 1) return printFitted(io, fitted, full);
    kept = kept.slice(Math.ceil(kept.length / OLDEST_SHARE));
  }
}

const OLDEST_SHARE = 6;

/** Options for fitting a result into the size limit of `--json`. */
export interface FitOptions {
  readonly shape: ResultShape;
  /** True to print everything, as the API returns it. */
  readonly isFull: boolean;
  /** True if the caller set the number of rows, so only long texts in them are cut. */
  readonly keepRows: boolean;
  /** `--fields`, as it was given. */
  readonly fields?: string | undefined;
  /** Commands that print what is cut here. */
  readonly more: readonly string[];
  /** Cuts that were made before, by requesting fewer rows. */
  readonly before?: readonly Readonly<Record<string, unknown>>[];
}

interface FittedResult {
  readonly value: JsonOutput;
  /** Bytes of the whole result, when not all of it is in the value. */
  readonly wholeBytes: number | undefined;
}

const NO_SHAPE: ResultShape = { fields: [], data: [] };

/** Options for a command that isn't an operation. */
const plainFit = { shape: NO_SHAPE, keepRows: false, more: [] };

/** Space for the note about a cut. */
const NOTE_BYTES = 700;
const NOTE_SHARE = 0.12;
/** The share of the space that is tried next if a result doesn't fit. */
const SHRINK_FACTOR = 0.85;
const VALUE_BYTES_MIN = 64;

export function fitResult(output: JsonOutput, options: FitOptions): FittedResult {
  const { shape, isFull, before = [] } = options;
  const picked = pickGiven(output, options);
  if (isFull) return { value: picked, wholeBytes: undefined };
  const hasNames = options.fields !== undefined;
  const small = hasNames ? picked : compactResult(picked, new Set(shape.data));
  const wholeBytes = countBytes(small);
  if (before.length === 0 && wholeBytes <= limits.resultBytes) {
    return { value: small, wholeBytes: undefined };
  }
  const { value: folded, cuts: folds } = foldResult(small, hasNames ? {} : shape);
  const start = limits.resultBytes - NOTE_BYTES;
  for (let bytes = start; ; bytes = Math.floor(bytes * SHRINK_FACTOR)) {
    const { value, cuts } = digest(folded, bytes, { keepRows: options.keepRows });
    const note = describe([...folds, ...cuts], { ...options, wholeBytes, value: folded });
    const noted = { ...(value as JsonOutput), ...note };
    const isLast = options.keepRows || bytes < VALUE_BYTES_MIN;
    if (isLast || countBytes(noted) <= limits.resultBytes) return { value: noted, wholeBytes };
  }
}

/** Picks the fields that the user named. */
function pickGiven(output: JsonOutput, { fields, shape }: FitOptions): JsonOutput {
  return fields === undefined ? output : pickFields(output, readFieldNames(fields), shape);
}

interface NoteRequest extends FitOptions {
  readonly wholeBytes: number;
  readonly value: unknown;
}

function describe(
  cuts: readonly ResultCut[],
  { value, wholeBytes, more, before = [] }: NoteRequest,
) {
  if (cuts.length + before.length === 0) return {};
  const { listed, left } = groupCuts(cuts, value, limits.resultBytes * NOTE_SHARE);
  return {
    cut: {
      whole_bytes: wholeBytes,
      parts: [...before, ...listed],
      ...(left === 0 ? {} : { more_parts: left }),
      commands: more,
    },
  };
}

/** Counts bytes as printed, with invisible characters escaped. */
function countBytes(value: unknown): number {
  return Buffer.byteLength(toVisibleText(JSON.stringify(value)));
}

/** Returns the command line with more words; secrets are left out. */
function repeatCommand(argv: readonly string[], more: readonly string[]): string {
  const words = dropFlags(argv, more);
  return ['ductile', ...words, ...more].map(quoteShell).join(' ');
}

/** A token isn't repeated, and a repeated flag is written once. */
function dropFlags(argv: readonly string[], more: readonly string[]): string[] {
  const dropped = new Set(['--token', ...more.filter((word) => word.startsWith('--'))]);
  const takesValue = new Set(['--token', '--cursor', '--limit']);
  const kept: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? '';
    const [name = ''] = word.split('=');
    if (!dropped.has(name)) kept.push(word);
    else if (takesValue.has(name) && !word.includes('=')) at += 1;
  }
  return kept;
}

interface ShownResult {
  readonly definition: CommandDefinition;
  readonly options: CommonFlags;
  readonly input: OperationInput;
  readonly output: JsonOutput;
  /** Requests fewer rows. */
  readonly look: (input: OperationInput) => Promise<JsonOutput>;
}

/** Prints a result as JSON that fits; see `limits.resultBytes`. */
export async function showJson(session: CliSession, shown: ShownResult): Promise<void> {
  const { io, argv } = session;
  const { definition, options, input, output } = shown;
  const fit = fitOf(definition, options, { argv, keepRows: input['limit'] !== undefined });
  const fitted = fitResult(output, fit);
  printFitted(io, (await fetchLess(session, shown, { fit, fitted })) ?? fitted, fit.isFull);
}

export function fitOf(
  { result }: CommandDefinition,
  { full = false, fields }: CommonFlags,
  { argv, keepRows }: { readonly argv: readonly string[]; readonly keepRows: boolean },
): FitOptions {
  const more = [repeatCommand(argv, ['--full'])];
  return { shape: result, isFull: full, keepRows, fields, more };
}

/** Refuses field names that no result of the command has, before the request. */
export function checkFields({ result }: CommandDefinition, { fields }: CommonFlags): void {
  if (fields !== undefined) checkFieldNames(readFieldNames(fields), result);
}

/**
 * Fetches a page again with as many rows as fit, so that its cursor continues after the last row that
 * is printed. Undefined when the result isn't a page, or all of its rows fit.
 */
async function fetchLess(
  { argv }: CliSession,
  { definition, input, output, look }: ShownResult,
  { fit, fitted }: { readonly fit: FitOptions; readonly fitted: FittedResult },
): Promise<FittedResult | undefined> {
  const { rows } = definition.result;
  const names = definition.fields.map(({ field }) => field);
  const isPaged = names.includes('limit') && (names.includes('cursor') || names.includes('after'));
  if (rows === undefined || !isPaged || fit.isFull || fit.keepRows) return undefined;
  const [count, fits] = [output, fitted.value].map((result) => countRows(result, rows.field));
  if (count === undefined || fits === undefined || fits >= count || fits === 0) return undefined;
  const less = await look({ ...input, limit: fits });
  const part = { at: `/${rows.field}`, kind: 'page', total: count, shown: fits };
  const next = less['next_cursor'] ?? less['cursor'];
  const flag = names.includes('cursor') ? '--cursor' : '--after';
  const more = [
    ...(typeof next === 'string' ? [repeatCommand(argv, [flag, next])] : []),
    repeatCommand(argv, ['--limit', String(count)]),
  ];
  const refitted = fitResult(less, { ...fit, more, before: [part] });
  return countRows(refitted.value, rows.field) === fits ? refitted : undefined;
}

function countRows(output: JsonOutput, field: string): number | undefined {
  const rows = output[field];
  return Array.isArray(rows) ? rows.length : undefined;
}
