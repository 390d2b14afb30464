import { parseDuration } from '../base/quantity.ts';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import type { JsonOutput } from '../operation/define.ts';
import type { CommandDefinition } from './commands.ts';
import type { CliIo, CommonFlags } from './host.ts';
import { fitResult, fitOf } from './print-json.ts';
import { printError, showCell, makePrinter } from './print.ts';
import { renderResult } from './show.ts';
import { formatTimeOfDay, cut } from './table.ts';
import { rowsOf } from './view-parts.ts';
import type { OperationInput } from './call-operation.ts';

const INTERVAL_MS_DEFAULT = 2000;
const INTERVAL_MS_MIN = 100;
const HOME_AND_CLEAR = '\u001b[H\u001b[J';

/** Reads `--watch [interval]` in milliseconds; undefined if it wasn't given. */
export function readInterval(given: unknown): number | undefined {
  if (given === undefined) return undefined;
  if (given === true) return INTERVAL_MS_DEFAULT;
  const parsed = typeof given === 'string' ? parseDuration(given) : undefined;
  if (parsed?.ok === true && parsed.ms >= INTERVAL_MS_MIN) return parsed.ms;
  throw new DuctileError('INPUT_INVALID', `${showCell(given)} is not an interval`, {
    place: 'watch',
    hint: `Write a duration of at least ${INTERVAL_MS_MIN}ms, such as --watch 5s.`,
  });
}

/** A command that is repeated, with its options. */
interface WatchRequest {
  readonly definition: CommandDefinition;
  readonly options: CommonFlags;
  readonly intervalMs: number;
  readonly argv: readonly string[];
  /** True if the user set the number of rows. */
  readonly keepRows: boolean;
  look(): Promise<JsonOutput>;
}

/**
 * Repeats a command until Ctrl-C: a terminal is redrawn, other output gets the changes. Waits while
 * the service is unavailable.
 */
export async function watchCommand(io: CliIo, request: WatchRequest): Promise<number> {
  const { options, intervalMs } = request;
  const isJson = options.json === true;
  const print = !isJson && io.isTTY ? makeScreen(io, request) : makeFeed(io, request);
  const read = async (): Promise<void> => print(await request.look());
  return repeatRead(io, io.interruption(), { everyMs: intervalMs, isJson, read });
}

interface RepeatedRead {
  readonly everyMs: number;
  readonly isJson: boolean;
  /** Reads and prints. Returns true if there is more to read at once. */
  readonly read: () => Promise<boolean | void>;
}

/** Repeats a read until Ctrl-C. While the service is unavailable, it prints each error once. */
export async function repeatRead(
  io: CliIo,
  interruption: AbortSignal,
  { everyMs, isJson, read }: RepeatedRead,
): Promise<number> {
  let lastError = '';
  while (!interruption.aborted) {
    try {
      const hasMore = await read();
      lastError = '';
      if (hasMore === true) continue;
    } catch (thrown) {
      const error = toDuctileError(thrown);
      if (!error.kind.retryable) throw error;
      if (lastError !== error.message) printError(error, io, isJson);
      lastError = error.message;
    }
    await io.pause(everyMs, interruption);
  }
  return 0;
}

type PrintResult = (output: JsonOutput) => void;

function makeScreen(io: CliIo, { definition, options, intervalMs }: WatchRequest): PrintResult {
  const title = `ductile ${definition.noun} ${definition.action}, every ${intervalMs / 1000}s`;
  return (output) => {
    const head = cut(`${title}, ${formatTimeOfDay(io.now())}`, io.columns);
    const lines = [head, '', ...renderResult(definition, output, options, io)];
    // Keep one line free, so that the last line break doesn't scroll the first line away.
    const seen = lines.slice(0, Math.max(1, io.rows - 1));
    io.stdout.write(`${HOME_AND_CLEAR}${seen.join('\n')}\n`);
  };
}

function makeFeed(io: CliIo, { definition, options, argv, keepRows }: WatchRequest): PrintResult {
  const { table } = definition;
  const isRowFeed = options.json !== true && options.fields === undefined;
  if (isRowFeed && table !== undefined) return makeRowFeed(io, table, options);
  let last = '';
  const fit = fitOf(definition, options, { argv, keepRows });
  return (output) => {
    const lines =
      options.json === true
        ? [JSON.stringify(fitResult(output, fit).value)]
        : renderResult(definition, output, options, io);
    const text = lines.join('\n');
    if (text !== last) io.stdout.write(`${text}\n`);
    last = text;
  };
}

/**
 * Prints one line for each new or changed row, without padding, because later widths are unknown.
 */
function makeRowFeed(
  io: CliIo,
  { rows, columns }: NonNullable<CommandDefinition['table']>,
  { verbose = false }: CommonFlags,
): PrintResult {
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

/** The time between two reads of new rows. */
export const POLL_MS = 1000;

interface FollowRequest {
  readonly definition: CommandDefinition;
  readonly options: CommonFlags;
  readonly input: OperationInput;
  readonly look: (input: OperationInput) => Promise<JsonOutput>;
}

/**
 * Prints page after page, one line per row, until Ctrl-C. It continues after its cursor, so an
 * outage of the service delays rows but loses none.
 */
export async function followPages(io: CliIo, request: FollowRequest): Promise<number> {
  const { options, input, look } = request;
  const print = makePagePrinter(io, request);
  let after = input;
  const read = async (): Promise<boolean> => {
    const page = await look(after);
    print(page);
    after = { ...input, after: page['cursor'] };
    return page['more'] === true;
  };
  const isJson = options.json === true;
  return repeatRead(io, io.interruption(), { everyMs: POLL_MS, isJson, read });
}

function makePagePrinter(
  io: CliIo,
  { definition, options }: FollowRequest,
): (page: JsonOutput) => void {
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

const QUIET_MS = 500;
const STEP_MS = 100;
const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const CLEAR = '\r\u001b[K';

/** Shows progress at a terminal while long work runs. */
export async function withProgress<Result>(
  io: CliIo,
  label: string,
  work: () => Promise<Result>,
): Promise<Result> {
  if (!io.isErrTTY) return work();
  const startedMs = io.now();
  let step = 0;
  const timer = setInterval(() => {
    const ms = io.now() - startedMs;
    if (ms < QUIET_MS) return;
    const frame = frames[step % frames.length] ?? '';
    io.stderr.write(`${CLEAR}${frame} ${label} ${Math.floor(ms / 1000)}s`);
    step += 1;
  }, STEP_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    if (step > 0) io.stderr.write(CLEAR);
  }
}
