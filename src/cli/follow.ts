import { toDuctileError } from '../base/errors.ts';
import type { JsonOutput } from '../operation/define.ts';
import type { Input } from './ask.ts';
import type { CommandDefinition } from './commands.ts';
import type { CliIo, Common } from './host.ts';
import { makePrinter } from './options.ts';
import { printError, showCell } from './print.ts';
import { rowsOf } from './view-parts.ts';

const LOOK_MS = 1000;

export interface Followed {
  readonly definition: CommandDefinition;
  readonly options: Common;
  readonly input: Input;
  readonly look: (input: Input) => Promise<JsonOutput>;
}

/**
 * Page after page of what comes, one line for each row, until Ctrl-C. It goes on after its cursor, so a
 * server that is away for a while makes it late and lets it miss nothing.
 */
export async function follow(io: CliIo, followed: Followed): Promise<number> {
  const { options, input, look } = followed;
  const over = io.interruption();
  const tell = makeTell(io, followed);
  let lastError = '';
  let after = input;
  while (!over.aborted) {
    try {
      const page = await look(after);
      tell(page);
      after = { ...input, after: page['cursor'] };
      lastError = '';
      if (page['more'] === true) continue;
    } catch (thrown) {
      const error = toDuctileError(thrown);
      if (!error.kind.retryable) throw error;
      if (lastError !== error.message) printError(error, io, options.json === true);
      lastError = error.message;
    }
    await io.pause(LOOK_MS, over);
  }
  return 0;
}

function makeTell(io: CliIo, { definition, options }: Followed): (page: JsonOutput) => void {
  const printer = makePrinter(io, options);
  const { rows = '', columns = [] } = definition.table ?? {};
  const shown = columns.filter(([, , detail]) => detail === undefined || options.verbose === true);
  return (page) => {
    for (const row of rowsOf(page[rows])) {
      if (options.json === true) printer.jsonLine(row);
      else printer.line(shown.map(([, field]) => showCell(row[field])).join('  '));
    }
  };
}
