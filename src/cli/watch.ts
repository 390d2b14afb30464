import { parseDuration } from '../base/quantity.ts';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import type { JsonOutput } from '../operation/define.ts';
import type { CommandDefinition } from './commands.ts';
import type { CliIo, Common } from './host.ts';
import { fitResult } from './fit-result.ts';
import { printError, showCell } from './print.ts';
import { render } from './show.ts';
import { fitOf } from './show-json.ts';
import { sayTime } from './when.ts';
import { rowsOf } from './view-parts.ts';
import { cut } from './width.ts';

const USUAL_MS = 2000;
const SHORTEST_MS = 100;
const HOME_AND_CLEAR = '\u001b[H\u001b[J';

/** What `--watch [interval]` was given, in milliseconds; undefined when it was not. */
export function readInterval(given: unknown): number | undefined {
  if (given === undefined) return undefined;
  if (given === true) return USUAL_MS;
  const parsed = typeof given === 'string' ? parseDuration(given) : undefined;
  if (parsed?.ok === true && parsed.ms >= SHORTEST_MS) return parsed.ms;
  throw new DuctileError('INPUT_INVALID', `${showCell(given)} is not an interval`, {
    place: 'watch',
    hint: `Write a duration of at least ${SHORTEST_MS}ms, such as --watch 5s.`,
  });
}

export interface Watched {
  readonly definition: CommandDefinition;
  readonly options: Common;
  readonly intervalMs: number;
  readonly argv: readonly string[];
  /** The number of rows was given. */
  readonly keepRows: boolean;
  look(): Promise<JsonOutput>;
}

/**
 * Looks again and again until Ctrl-C: a terminal is drawn anew, anything else gets what changed. A
 * server that is away for a while is waited for.
 */
export async function watch(io: CliIo, watched: Watched): Promise<number> {
  const over = io.interruption();
  const tell =
    watched.options.json !== true && io.isTTY ? makeScreen(io, watched) : makeFeed(io, watched);
  let lastError = '';
  while (!over.aborted) {
    try {
      tell(await watched.look());
      lastError = '';
    } catch (thrown) {
      const error = toDuctileError(thrown);
      if (!error.kind.retryable) throw error;
      if (lastError !== error.message) printError(error, io, watched.options.json === true);
      lastError = error.message;
    }
    await io.pause(watched.intervalMs, over);
  }
  return 0;
}

type Tell = (output: JsonOutput) => void;

function makeScreen(io: CliIo, { definition, options, intervalMs }: Watched): Tell {
  const title = `ductile ${definition.noun} ${definition.action}, every ${intervalMs / 1000}s`;
  return (output) => {
    const head = cut(`${title}, ${sayTime(io.now())}`, io.columns);
    const lines = [head, '', ...render(definition, output, options, io)];
    // One line stays free, so that the last line break does not scroll the first one away.
    const seen = lines.slice(0, Math.max(1, io.rows - 1));
    io.stdout.write(`${HOME_AND_CLEAR}${seen.join('\n')}\n`);
  };
}

function makeFeed(io: CliIo, { definition, options, argv, keepRows }: Watched): Tell {
  const { table } = definition;
  const isRowFeed = options.json !== true && options.fields === undefined;
  if (isRowFeed && table !== undefined) return makeRowFeed(io, table, options);
  let last = '';
  const fit = fitOf(definition, options, { argv, keepRows });
  return (output) => {
    const lines =
      options.json === true
        ? [JSON.stringify(fitResult(output, fit).value)]
        : render(definition, output, options, io);
    const text = lines.join('\n');
    if (text !== last) io.stdout.write(`${text}\n`);
    last = text;
  };
}

/** One line for each row that is new or has changed, without padding: nobody knows the next width. */
function makeRowFeed(
  io: CliIo,
  { rows, columns }: NonNullable<CommandDefinition['table']>,
  { verbose = false }: Common,
): Tell {
  const shown = columns.filter(([, , detail]) => detail === undefined || verbose);
  let before = new Set<string>();
  return (output) => {
    const lines = rowsOf(output[rows]).map((row) =>
      shown.map(([, field]) => showCell(row[field])).join('  '),
    );
    for (const line of lines) if (!before.has(line)) io.stdout.write(`${line}\n`);
    before = new Set(lines);
  };
}
