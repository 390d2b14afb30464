import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { compact, isObject } from '../base/json.ts';
import { suggest } from '../base/text.ts';
import { callOperation, type OperationInput } from './call-operation.ts';
import { makePrinter, type Printer, type ResultRow } from './print.ts';
import type { CommonFlags, CliSession } from './host.ts';
import { printLatest } from './print-json.ts';
import { printAttempt, printCoreLine } from '../job/view.ts';
import { rowsOf } from './view-parts.ts';
import { isMoment } from './table.ts';
import { POLL_MS, repeatRead } from './watch.ts';

interface TailOptions extends CommonFlags {
  readonly plugin?: string | undefined;
  readonly job?: string;
  readonly correlation?: string;
  readonly follow?: boolean;
  readonly limit?: number;
  readonly since?: string;
  readonly core?: boolean;
  readonly level?: string;
  readonly component?: string;
}

const LINES_DEFAULT = 20;
const PAGE_ROWS = 500;
/** Commits can become visible in another order than their rows were written. */
const OVERLAP_MS = 10_000;

/** Prints the latest lines and, with `--follow`, new ones until Ctrl-C. */
export async function tail(session: CliSession, options: TailOptions): Promise<number> {
  refuseContradictions(options);
  const { io } = session;
  const printer = makePrinter(io, options);
  const source = options.core === true ? coreLines(session, options) : attempts(session, options);
  if (options.follow !== true) {
    const { name, rows } = await source.first();
    if (options.json === true) printLatest(session, options, { name, rows });
    else for (const row of rows) source.print(row, printer);
    return 0;
  }
  const interruption = io.interruption();
  const show = (rows: readonly ResultRow[]): void => {
    for (const row of rows) {
      if (options.json === true) printer.jsonLine(row);
      else source.print(row, printer);
    }
  };
  show((await source.first()).rows);
  await io.pause(POLL_MS, interruption);
  const read = async (): Promise<void> => show(await source.next());
  return repeatRead(io, interruption, { everyMs: POLL_MS, isJson: options.json === true, read });
}

/** Source of log lines. */
interface Source {
  /** Reads the first rows, oldest first: all since a time, or the requested number. */
  first(): Promise<{ readonly name: string; readonly rows: readonly ResultRow[] }>;
  /** Reads new rows. */
  next(): Promise<readonly ResultRow[]>;
  print(row: ResultRow, printer: Printer): void;
}

function refuseContradictions(options: TailOptions): void {
  const { core, level, component } = options;
  const about = options.plugin ?? options.job ?? options.correlation;
  const wrong =
    core === true
      ? about !== undefined && `--core cannot be combined with the filter ${about}`
      : (level ?? component) !== undefined && '--level and --component need --core';
  if (wrong === false) return;
  throw new DuctileError('INPUT_INVALID', wrong, {
    hint: 'Use --core for the log of the service, or a plugin name for the output of that plugin.',
  });
}

/** Reads attempts from the ledger, so that none is missed, whichever process wrote it. */
function attempts(session: CliSession, options: TailOptions): Source {
  const { plugin, job, correlation, since, limit } = options;
  const seen = new Map<string, number>();
  const common = compact({ plugin, job_id: job, correlation_id: correlation });
  const read = (input: OperationInput) =>
    callOperation(session, options, 'job.logs', { ...common, ...input });
  // The ledger's clock counts until a row says when the last attempt ended.
  let from = `${OVERLAP_MS}ms`;
  const fresh = (rows: readonly ResultRow[]): ResultRow[] => {
    const unseen = rows.filter(({ log_id }) => !seen.has(String(log_id)));
    for (const row of rows) seen.set(String(row['log_id']), endOf(row));
    if (seen.size === 0) return [];
    const start = Math.max(...seen.values()) - OVERLAP_MS;
    from = toTimestamp(Math.max(0, start));
    for (const [id, ms] of seen) if (ms < start) seen.delete(id);
    return unseen;
  };
  const readFrom = async (start: string): Promise<ResultRow[]> => {
    const found: ResultRow[] = [];
    let page = await read({ since: start, limit: PAGE_ROWS });
    for (;;) {
      const rows = rowsOf(page['logs']);
      found.push(...rows);
      if (rows.length < PAGE_ROWS) return found;
      page = await read({ cursor: page['next_cursor'], limit: PAGE_ROWS });
    }
  };
  return {
    async first() {
      const rows =
        since === undefined
          ? rowsOf((await read({ limit: limit ?? LINES_DEFAULT }))['logs']).toReversed()
          : await readFrom(since);
      if (rows.length === 0 && plugin !== undefined) await refuseUnknown(session, options, plugin);
      return { name: 'logs', rows: latest(fresh(rows), limit) };
    },
    next: async () => fresh(await readFrom(from)),
    print: printAttempt,
  };
}

/** Refuses an unknown plugin: an empty log would look as if it had never run. */
async function refuseUnknown(
  session: CliSession,
  options: CommonFlags,
  plugin: string,
): Promise<void> {
  const { plugins, dormant, disabled, problems } = await callOperation(
    session,
    options,
    'plugin.list',
    {},
  );
  const known = [
    ...rowsOf(plugins).map(({ name }) => String(name)),
    ...rowsOf(problems).map((problem) => String(problem['plugin'])),
    ...(Array.isArray(disabled) ? disabled.map(String) : []),
    ...Object.keys(isObject(dormant) ? dormant : {}),
  ];
  if (known.includes(plugin)) return;
  throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${plugin}`, {
    hint: suggest(plugin, known, 'plugins'),
  });
}

function latest(rows: readonly ResultRow[], limit = rows.length): readonly ResultRow[] {
  return rows.slice(rows.length - Math.min(limit, rows.length));
}

function endOf({ completed_at }: ResultRow): number {
  return isMoment(completed_at) ? fromTimestamp(completed_at) : 0;
}

/** Reads the latest log lines that the service keeps in memory; a new process counts from 1 again. */
function coreLines(session: CliSession, options: TailOptions): Source {
  const { level, component, since, limit } = options;
  const common = compact({ level, component });
  let last = 0;
  let processId: unknown;
  const read = async (input: OperationInput): Promise<ResultRow[]> => {
    const output = await callOperation(session, options, 'system.logs', { ...common, ...input });
    const hasRestarted = processId !== undefined && processId !== output['process_id'];
    processId = output['process_id'];
    if (hasRestarted) return read({ after: 0, limit: PAGE_ROWS });
    last = Number(output['last_seq']);
    return [...rowsOf(output['logs'])];
  };
  /** Reads page after page; each continues after the last line. */
  const readFrom = async (start: OperationInput): Promise<ResultRow[]> => {
    const found: ResultRow[] = [];
    let page = await read({ ...start, limit: PAGE_ROWS });
    for (;;) {
      found.push(...page);
      if (page.length < PAGE_ROWS) return found;
      page = await read({ after: last, limit: PAGE_ROWS });
    }
  };
  return {
    async first() {
      const rows =
        since === undefined
          ? await read({ limit: limit ?? LINES_DEFAULT })
          : latest(await readFrom({ since }), limit);
      return { name: 'logs', rows };
    },
    next: () => readFrom({ after: last }),
    print: printCoreLine,
  };
}
