import { toTimestamp } from '../../src/base/clock.ts';
import type { JsonOutput } from '../../src/operation/define.ts';
import { callOperation } from '../../src/cli/call-operation.ts';
import { makePrinter, type Printer } from '../../src/cli/print.ts';
import type { CommonFlags, CliSession, WatchFlags } from '../../src/cli/host.ts';
import { printJson } from '../../src/cli/print-json.ts';
import { readView, readOverview, type Call } from './read-views.ts';
import { viewNames, type Overview, type ViewPart, type ViewName } from './state.ts';
import { definitions } from './tables.ts';

/** Runs `ductile watch`: the screen on a terminal, else a single snapshot. */
export async function watchAll(session: CliSession, options: WatchFlags): Promise<number> {
  const { io } = session;
  const obstacle = findObstacle(session);
  const isOnce = options.once === true || options.json === true;
  if (obstacle === undefined && !isOnce) {
    const { showScreen } = await import('./screen.ts');
    return showScreen(session, options);
  }
  if (!isOnce) io.stderr.write(`${obstacle ?? ''}. This is a single snapshot.\n`);
  await printSnapshot(session, options);
  return 0;
}

/** Explains why the screen can't be drawn. */
function findObstacle({ io }: CliSession): string | undefined {
  if (!io.isTTY) return "The output isn't a terminal";
  if (!io.isInTTY) return "The input isn't a terminal, so keys don't work";
  const term = io.env['TERM'] ?? '';
  return ['', 'dumb'].includes(term)
    ? `A terminal with TERM=${term} can't show the screen`
    : undefined;
}

async function printSnapshot(session: CliSession, options: CommonFlags): Promise<void> {
  const call: Call = (name, input) => callOperation(session, options, name, input);
  const overview = await readOverview(call);
  const parts = new Map<ViewName, ViewPart>();
  for (const view of viewNames) parts.set(view, await readView(view, call));
  const printer = makePrinter(session.io, options);
  const nowMs = session.io.now();
  if (options.json === true) {
    printJson(session, options, toJson(overview, parts, nowMs));
    return;
  }
  printer.pairs([
    ['running', overview.running],
    ['queued', overview.queued],
    ['failed in the last hour', overview.failed],
    ['breakers open', overview.breakers],
    ['incidents open', overview.incidents],
  ]);
  for (const [view, part] of parts) printPart(view, part, printer, nowMs);
}

function printPart(
  view: ViewName,
  { rows, problem }: ViewPart,
  printer: Printer,
  nowMs: number,
): void {
  const { title, columns, empty } = definitions[view];
  printer.title(title);
  const cells = rows.map((row) =>
    Object.fromEntries(columns.map(({ title: name, cell }) => [name, cell(row, nowMs)])),
  );
  printer.table(cells, {
    columns: columns.map(({ title: name }) => [name, name] as const),
    empty: problem ?? empty,
  });
}

function toJson(
  overview: Overview,
  parts: ReadonlyMap<ViewName, ViewPart>,
  nowMs: number,
): JsonOutput {
  const problems = [...parts].flatMap(([view, { problem }]) =>
    problem === undefined ? [] : [{ view, message: problem }],
  );
  return {
    taken_at: toTimestamp(nowMs),
    overview: {
      running: overview.running ?? null,
      queued: overview.queued ?? null,
      failed_last_hour: overview.failed ?? null,
      breakers_open: overview.breakers ?? null,
      incidents_open: overview.incidents ?? null,
    },
    ...Object.fromEntries([...parts].map(([view, { rows }]) => [view, rows])),
    problems,
  };
}
