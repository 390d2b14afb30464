import { styleOf } from '../../src/cli/print.ts';
import { toVisibleText } from '../../src/base/text.ts';
import { GAP, joinCells, layOut, wrap, formatTimeOfDay } from '../../src/cli/table.ts';
import { renderDetails, detailHeight } from './details.ts';
import { makeLine, lineWidth } from './spans.ts';
import type { Line, Span } from './spans.ts';
import { spark } from './shapes.ts';
import { RATE_SECONDS, viewNames } from './state.ts';
import type { Link, State } from './state.ts';
import { definitions, markedIndex, shownRows } from './tables.ts';
import type { Column } from './tables.ts';

/** Renders the whole screen, one line per row. */
export function renderScreen(state: State): readonly Line[] {
  const { rows } = state.size;
  const body =
    state.dialog?.kind === 'help'
      ? [titleLine(state), ...helpLines]
      : state.details === undefined
        ? listScreen(state)
        : detailScreen(state);
  const foot = footLines(state);
  const height = Math.max(0, rows - foot.length);
  const filled: Line[] = body.slice(0, height);
  while (filled.length < height) filled.push([]);
  return [...filled, ...foot].slice(-rows);
}

/** On a low screen the list replaces the header. */
function listScreen(state: State): Line[] {
  const { rows } = state.size;
  const head = [
    titleLine(state),
    ...(rows >= 6 ? [renderOverview(state)] : []),
    ...(rows >= 8 ? [tabLine(state)] : []),
  ];
  return [...head, ...listLines(state, rows - head.length - 1)];
}

function listLines(state: State, height: number): Line[] {
  const { view, size, nowMs, filter } = state;
  const { columns, empty, status } = definitions[view];
  const part = state.data.parts[view];
  if (part === undefined) return [makeLine('Loading …', 'gray')];
  if (part.problem !== undefined) return [makeLine(part.problem, 'red')];
  const rows = shownRows(state);
  if (rows.length === 0) {
    return [makeLine(filter === '' ? empty : `No rows contain “${filter}”.`, 'gray')];
  }
  // Show whole pages, so that the list doesn't scroll with every move of the bar.
  const length = Math.max(1, height - 1);
  const marked = markedIndex(state);
  const top = Math.floor(marked / length) * length;
  const page = rows.slice(top, top + length);
  const shown = columns.filter(({ from = 0 }) => size.columns >= from);
  const titles = shown.map(({ title }) => title);
  const cells = page.map((row) => shown.map(({ cell }) => cell(row, nowMs)));
  const [head = [], ...laid] = layOut([titles, ...cells], Math.max(1, size.columns - BAR.length));
  const lines = laid.map((row, at): Line => {
    if (top + at === marked) return makeLine(`${BAR}${joinCells(row)}`, 'inverse');
    const style = styleOf(status(page[at] ?? {}));
    return [{ text: NO_BAR }, ...row.flatMap((cell, nth) => paint(cell, shown[nth], style))];
  });
  return [makeLine(`${NO_BAR}${joinCells(head)}`, 'gray'), ...lines];
}

const BAR = '> ';
const NO_BAR = ' '.repeat(BAR.length);

function paint(cell: string, column: Column | undefined, style: Span['style']): Line {
  return [{ text: cell, style: column?.isState === true ? style : undefined }, { text: GAP }];
}

function detailScreen(state: State): Line[] {
  const { details, size } = state;
  if (details === undefined) return [];
  const lines = renderDetails(state);
  const height = detailHeight(size);
  const scroll = Math.min(details.scroll, Math.max(0, lines.length - height));
  return [titleLine(state), ...lines.slice(scroll, scroll + height)];
}

const linkStyles: Readonly<Record<Link, Span['style']>> = {
  connecting: 'yellow',
  live: 'green',
  polling: 'yellow',
  lost: 'red',
};

const linkWords: Readonly<Record<Link, string>> = {
  connecting: 'connecting',
  live: 'live',
  polling: 'polling every few seconds',
  lost: 'LOST, reconnecting',
};

function titleLine({ link, linkNote, pendingData, serviceName, nowMs, size }: State): Line {
  const left: Line = [
    { text: 'ductile ', style: 'bold' },
    { text: linkWords[link], style: linkStyles[link] },
    ...(pendingData === undefined ? [] : [{ text: '  PAUSED', style: 'yellow' } as const]),
    ...(linkNote === '' ? [] : [{ text: `  ${linkNote}`, style: linkStyles[link] }]),
  ];
  const right = `${serviceName}  ${formatTimeOfDay(nowMs)}`;
  const gap = size.columns - lineWidth(left) - lineWidth(makeLine(right));
  return gap < 2 ? left : [...left, { text: ' '.repeat(gap) }, { text: right, style: 'gray' }];
}

function tabLine({ view, filter, dialog, size }: State): Line {
  const isNarrow = size.columns < 64;
  const tabs = viewNames.flatMap((name, at): Span[] => {
    const { title } = definitions[name];
    const isOpen = name === view;
    // The open tab is in brackets, for terminals without colors.
    const text = isOpen
      ? `[${at + 1} ${title}]`
      : isNarrow
        ? ` ${at + 1} `
        : ` ${at + 1} ${title} `;
    return [{ text, style: isOpen ? 'bold' : 'gray' }];
  });
  const isTyped = dialog?.kind === 'filter';
  return filter === '' || isTyped ? tabs : [...tabs, { text: `  /${filter}`, style: 'yellow' }];
}

function footLines(state: State): Line[] {
  const { dialog, notice, details } = state;
  if (dialog?.kind === 'filter')
    return [makeLine(`/${state.filter}_  enter keeps the filter, esc cancels`)];
  if (dialog?.kind === 'help') return [makeLine('any key goes back', 'gray')];
  if (dialog?.kind === 'confirm') {
    const { action, plan } = dialog;
    if (plan === undefined) return [makeLine(`${action.label}: loading the plan …`, 'yellow')];
    const planLines = plan.flatMap((text) => wrap(toVisibleText(text), state.size.columns));
    return [
      ...planLines.map((text) => makeLine(text, 'yellow')),
      makeLine(`${action.label}? y/n`, 'bold'),
    ];
  }
  if (notice !== undefined) return [makeLine(notice.text, notice.isError ? 'red' : 'green')];
  if (details !== undefined)
    return [makeLine('esc back  ? help  ↑↓ scroll  c cancel  r retry', 'gray')];
  return [
    makeLine(
      '? help  q quit  ↑↓ enter details  1-5 views  / filter  c cancel  r retry  p pause',
      'gray',
    ),
  ];
}

const BARS_MAX = 30;

/** Shows running, queued and failed work; the bars are ended attempts per second. */
function renderOverview({ data: { overview }, endCounts, size }: State): Line {
  const { running, queued, failed, breakers, incidents } = overview;
  const load = [
    ...figure(running, 'running', 'cyan'),
    ...figure(queued, 'queued', 'yellow'),
    ...figure(failed, 'failed/h', 'red'),
  ];
  const troubles = [
    [breakers, breakers === 1 ? 'breaker open' : 'breakers open'],
    [incidents, incidents === 1 ? 'incident' : 'incidents'],
  ] as const;
  const all = [...load, ...troubles.flatMap(([count, word]) => figure(count, word, 'red'))];
  // On a narrow screen zero counts are left out.
  const present = troubles.filter(([count]) => count !== 0);
  const isNarrow = lineWidth(all) > size.columns;
  const figures = isNarrow
    ? [...load, ...present.flatMap(([count, word]) => figure(count, word, 'red'))]
    : all;
  const perMinute = endCounts.reduce((sum, { good, bad }) => sum + good + bad, 0);
  const rate: Span = { text: `${perMinute}/min ` };
  const width = Math.min(BARS_MAX, RATE_SECONDS, size.columns - lineWidth([...figures, rate]));
  if (width < 5) return figures;
  const recent = endCounts.slice(-width).map(({ good, bad }) => good + bad);
  return [...figures, rate, { text: spark(recent), style: 'green' }];
}

function figure(count: number | undefined, word: string, style: Span['style']): Span[] {
  const text = `${count ?? '–'} ${word}`;
  return [{ text, style: count === undefined || count === 0 ? 'gray' : style }, { text: '  ' }];
}

const keys: readonly (readonly [keys: string, meaning: string])[] = [
  ['1 to 5, tab', 'jobs, runs, schedules, incidents, plugins'],
  ['↑ ↓, j k', 'move; PgUp PgDn ten rows, g G to the ends'],
  ['enter', 'details: why, attempts, errors, last stderr'],
  ['esc, q', 'back from the details'],
  ['/', 'show only rows that contain a text; esc shows all rows'],
  ['c', 'cancel the job or run; shows the plan and asks first'],
  ['r', 'retry the job or revive the run; shows the plan and asks first'],
  ['p', 'pause and resume the view'],
  ['ctrl-L', 'redraw the screen'],
  ['ctrl-Z', 'suspend; fg resumes'],
  ['q, ctrl-C', 'quit'],
];

const helpLines: readonly Line[] = [
  [],
  ...keys.map(([names, meaning]): Line => [
    { text: `  ${names.padEnd(12)}  `, style: 'bold' },
    { text: meaning },
  ]),
];
