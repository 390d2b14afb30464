import { toVisibleText } from '../../src/base/text.ts';
import { findCommand, type OperationInput } from '../../src/cli/call-operation.ts';
import { renderResult } from '../../src/cli/show.ts';
import { rowsOf } from '../../src/cli/view-parts.ts';
import { wrap } from '../../src/cli/table.ts';
import { styleOf } from '../../src/cli/print.ts';
import { makeLine, type Line } from './spans.ts';
import type { DetailResult, Ref, Size, State, ViewName } from './state.ts';

const STDERR_LINES = 12;
const TRANSITIONS = 10;

type DetailCall = readonly [operation: string, input: OperationInput];

/** Lists the calls for one row, in the order of their results on the screen. */
export function detailCalls({ view, key }: Ref): readonly DetailCall[] {
  return callsByView[view](key);
}

const why = (kind: string, id: string): DetailCall => ['why.explain', { kind, id }];

const callsByView: Readonly<Record<ViewName, (key: string) => readonly DetailCall[]>> = {
  jobs: (id) => [why('job', id), ['job.inspect', { id }]],
  runs: (id) => [why('run', id), ['run.show', { id }]],
  schedules: (id) => [why('schedule', id)],
  incidents: (id) => [['incident.show', { id }]],
  plugins: (plugin) => [['system.breaker', { plugin, limit: TRANSITIONS }]],
};

/** Renders everything about the row. */
export function renderDetails({ details, size, nowMs }: State): readonly Line[] {
  if (details === undefined) return [];
  const { results, problem } = details;
  if (problem !== undefined)
    return wrap(toVisibleText(problem), size.columns).map((text) => makeLine(text, 'red'));
  if (results === undefined) return [makeLine('Loading …', 'gray')];
  return results
    .flatMap((result, at) => [
      ...(at === 0 ? [] : ['']),
      ...renderDetailResult(result, size.columns, nowMs),
      ...renderLastStderr(result),
    ])
    .flatMap((text) => wrap(text, size.columns))
    .map((text) => makeLine(text, styleOfLine(text)));
}

/** Counts the lines for details: all but the title and the keys. */
export function detailHeight({ rows }: Size): number {
  return Math.max(1, rows - 2);
}

function renderDetailResult(
  { name, output }: DetailResult,
  columns: number,
  nowMs: number,
): string[] {
  const paper = { hasColors: false, isTTY: true, columns, now: () => nowMs };
  return renderResult(findCommand(name), output, {}, paper);
}

/** Returns the end of the last attempt's standard error. */
function renderLastStderr({ name, output }: DetailResult): string[] {
  const stderr = name === 'job.inspect' ? rowsOf(output['attempts']).at(-1)?.['stderr'] : undefined;
  if (typeof stderr !== 'string' || stderr.trim() === '') return [];
  const lines = stderr.trimEnd().split('\n').slice(-STDERR_LINES);
  return ['', 'Last stderr', ...lines.map((text) => `  | ${toVisibleText(text)}`)];
}

/** Titles are alone on their line; states are at its end. */
function styleOfLine(text: string): ReturnType<typeof styleOf> {
  if (/^(status|error) /.test(text)) return styleOf(text.split(/ +/)[1] ?? '') ?? 'red';
  return /^[A-Z][a-z]+( [a-z]+)?$/.test(text) ? 'bold' : undefined;
}
