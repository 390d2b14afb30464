import { formatByteSize } from '../base/quantity.ts';
import { limits } from '../base/limits.ts';
import { toVisibleText } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import { countBytes, fitResult, plainFit, type FittedResult } from './fit-result.ts';
import type { CliIo, Common, Session } from './host.ts';
import { repeatCommand } from './repeat-command.ts';

/** Prints a result of a command that isn't an operation. */
export function printJson({ io, argv }: Session, options: Common, output: JsonOutput): void {
  const { full = false, fields } = options;
  const more = [repeatCommand(argv, ['--full'])];
  printFitted(io, fitResult(output, { ...plainFit, isFull: full, fields, more }), full);
}

/** Prints a result on several lines where they fit, else on one. */
export function printFitted(
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
    `note: this is ${shown} of ${whole}; \`cut\` lists what is left out, --full prints all\n`,
  );
}

/** Prints the latest of some lines: the oldest are left out first. */
export function printLatest(
  { io, argv }: Session,
  options: Common & { readonly limit?: number },
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
