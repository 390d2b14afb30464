import { showCell } from '../../src/cli/print.ts';
import type { ResultRow } from '../../src/cli/print.ts';
import { withRealState } from '../../src/cli/view-parts.ts';
import { isMoment, formatWhen } from '../../src/cli/table.ts';
import { shapeOf } from './shapes.ts';
import type { Action, State, ViewName } from './state.ts';

export interface Column {
  readonly title: string;
  readonly cell: (row: ResultRow, nowMs: number) => string;
  /** Minimum width of the screen for this column. */
  readonly from?: number;
  /** Uses the color of the row's state. */
  readonly isState?: boolean;
}

export interface ViewDefinition {
  readonly title: string;
  readonly empty: string;
  readonly keyOf: (row: ResultRow) => string;
  readonly status: (row: ResultRow) => string;
  readonly columns: readonly Column[];
  /** Operations of the keys `c` and `r`. */
  readonly cancel?: string;
  readonly retry?: string;
}

const text =
  (field: string) =>
  (row: ResultRow): string =>
    showCell(row[field]);

const when =
  (field: string) =>
  (row: ResultRow, nowMs: number): string => {
    const value = row[field];
    return isMoment(value) ? formatWhen(value, nowMs) : '-';
  };

/** Returns the raw value; people see it only through `writeLine`. */
const raw =
  (field: string) =>
  (row: ResultRow): string =>
    typeof row[field] === 'string' ? row[field] : '-';

const stateColumn = (field: string): Column => ({
  title: 'STATUS',
  cell: (row) => `${shapeOf(raw(field)(row))} ${text(field)(row)}`,
  isState: true,
});

export const definitions: Readonly<Record<ViewName, ViewDefinition>> = {
  jobs: {
    title: 'Jobs',
    empty: 'There are no jobs yet. Start one: ductile plugin run <plugin>',
    keyOf: raw('job_id'),
    status: raw('status'),
    cancel: 'job.cancel',
    retry: 'job.retry',
    columns: [
      stateColumn('status'),
      { title: 'PLUGIN', cell: text('plugin') },
      { title: 'COMMAND', cell: text('command'), from: 40 },
      { title: 'ATTEMPT', cell: text('attempt'), from: 60 },
      { title: 'CREATED', cell: when('created_at'), from: 50 },
      { title: 'ID', cell: text('job_id'), from: 64 },
      { title: 'ERROR', cell: text('last_error'), from: 76 },
    ],
  },
  runs: {
    title: 'Runs',
    empty: 'There are no pipeline runs yet.',
    keyOf: raw('run_id'),
    status: raw('status'),
    cancel: 'run.cancel',
    retry: 'run.revive',
    columns: [
      stateColumn('status'),
      { title: 'PIPELINE', cell: text('pipeline') },
      { title: 'CREATED', cell: when('created_at'), from: 44 },
      { title: 'AT STEP', cell: text('halted_at_step'), from: 70 },
      { title: 'ID', cell: text('run_id'), from: 56 },
      { title: 'REASON', cell: text('halt_reason'), from: 80 },
    ],
  },
  schedules: {
    title: 'Schedules',
    empty: 'There are no schedules.',
    keyOf: (row) => `${raw('plugin')(row)}/${raw('schedule_id')(row)}`,
    status: raw('status'),
    columns: [
      stateColumn('status'),
      { title: 'NEXT', cell: when('next_start_at') },
      { title: 'PLUGIN', cell: text('plugin') },
      { title: 'SCHEDULE', cell: text('schedule_id'), from: 50 },
      { title: 'WHEN', cell: text('timing'), from: 60 },
      { title: 'LAST', cell: when('last_fired_at'), from: 70 },
      { title: 'JOB', cell: text('last_job_status'), from: 76 },
      { title: 'HELD BY', cell: (row) => showCell(withRealState(row)['held_by']), from: 90 },
    ],
  },
  incidents: {
    title: 'Incidents',
    empty: 'No incident is open.',
    keyOf: raw('incident_id'),
    status: (row) => (row['status'] === 'open' ? 'open' : 'over'),
    columns: [
      {
        title: 'STATUS',
        cell: (row) =>
          row['status'] === 'open' ? `${shapeOf('open')} open` : `${shapeOf('closed')} closed`,
        isState: true,
      },
      { title: 'KIND', cell: text('kind') },
      { title: 'OPENED', cell: when('opened_at'), from: 50 },
      { title: 'ABOUT', cell: text('key'), from: 40 },
      { title: 'MESSAGE', cell: text('message'), from: 64 },
    ],
  },
  plugins: {
    title: 'Plugins',
    empty: 'No jobs are queued or running, and every breaker is closed.',
    keyOf: raw('plugin'),
    status: raw('breaker'),
    columns: [
      { title: 'PLUGIN', cell: text('plugin') },
      { title: 'RUNNING', cell: text('running') },
      { title: 'READY', cell: text('ready'), from: 36 },
      { title: 'DELAYED', cell: text('delayed'), from: 44 },
      { ...stateColumn('breaker'), title: 'BREAKER' },
    ],
  },
};

/** Filters the rows of the current view. */
export function shownRows({ data, view, filter, nowMs }: State): readonly ResultRow[] {
  const rows = data.parts[view]?.rows ?? [];
  const needle = filter.toLowerCase();
  if (needle === '') return rows;
  const { columns } = definitions[view];
  return rows.filter((row) =>
    columns.some(({ cell }) => cell(row, nowMs).toLowerCase().includes(needle)),
  );
}

/** Finds the position of the bar. */
export function markedIndex(state: State): number {
  const key = state.marked[state.view];
  const { keyOf } = definitions[state.view];
  return Math.max(
    0,
    shownRows(state).findIndex((row) => keyOf(row) === key),
  );
}

/** Creates the change for a key; undefined if the view has none. */
export function createAction(
  view: ViewName,
  key: string,
  verb: 'cancel' | 'retry',
): Action | undefined {
  const operation = definitions[view][verb];
  if (operation === undefined) return undefined;
  const [noun = '', action = ''] = operation.split('.');
  return { operation, id: key, label: `${action} ${noun} ${key}` };
}
