import { styleOf } from '../../src/cli/print.ts';
import { toVisibleText } from '../../src/base/text.ts';
import { GAP, joinCells, layOut, wrap, formatTimeOfDay } from '../../src/cli/table.ts';
import { detailLines, detailRoom } from './details.ts';
import { helpLines } from './help.ts';
import { overviewLine } from './overview.ts';
import { line, lineWidth } from './spans.ts';
import type { Line, Span } from './spans.ts';
import { viewNames } from './state.ts';
import type { Link, State } from './state.ts';
import { definitions, markedIndex, shownRows } from './tables.ts';
import type { Column } from './tables.ts';

/** Renders the whole screen, one line per row. */
export function screenLines(state: State): readonly Line[] {
  const { rows } = state.size;
  const body =
    state.dialog?.kind === 'help'
      ? [titleLine(state), ...helpLines]
      : state.details === undefined
        ? listScreen(state)
        : detailScreen(state);
  const foot = footLines(state);
  const room = Math.max(0, rows - foot.length);
  const filled: Line[] = body.slice(0, room);
  while (filled.length < room) filled.push([]);
  return [...filled, ...foot].slice(-rows);
}

/** On a low screen the list replaces the header. */
function listScreen(state: State): Line[] {
  const { rows } = state.size;
  const head = [
    titleLine(state),
    ...(rows >= 6 ? [overviewLine(state)] : []),
    ...(rows >= 8 ? [tabLine(state)] : []),
  ];
  return [...head, ...listLines(state, rows - head.length - 1)];
}

function listLines(state: State, room: number): Line[] {
  const { view, size, nowMs, filter } = state;
  const { columns, empty, status } = definitions[view];
  const part = state.known.parts[view];
  if (part === undefined) return [line('Asking …', 'gray')];
  if (part.problem !== undefined) return [line(part.problem, 'red')];
  const rows = shownRows(state);
  if (rows.length === 0) {
    return [line(filter === '' ? empty : `Nothing here has “${filter}” in it.`, 'gray')];
  }
  // Page by page, so that the list doesn't move while the bar does.
  const length = Math.max(1, room - 1);
  const marked = markedIndex(state);
  const top = Math.floor(marked / length) * length;
  const page = rows.slice(top, top + length);
  const shown = columns.filter(({ from = 0 }) => size.columns >= from);
  const titles = shown.map(({ title }) => title);
  const cells = page.map((row) => shown.map(({ cell }) => cell(row, nowMs)));
  const [head = [], ...laid] = layOut([titles, ...cells], Math.max(1, size.columns - BAR.length));
  const lines = laid.map((row, at): Line => {
    if (top + at === marked) return line(`${BAR}${joinCells(row)}`, 'inverse');
    const style = styleOf(status(page[at] ?? {}));
    return [{ text: NO_BAR }, ...row.flatMap((cell, nth) => paint(cell, shown[nth], style))];
  });
  return [line(`${NO_BAR}${joinCells(head)}`, 'gray'), ...lines];
}

const BAR = '> ';
const NO_BAR = ' '.repeat(BAR.length);

function paint(cell: string, column: Column | undefined, style: Span['style']): Line {
  return [{ text: cell, style: column?.isState === true ? style : undefined }, { text: GAP }];
}

function detailScreen(state: State): Line[] {
  const { details, size } = state;
  if (details === undefined) return [];
  const lines = detailLines(state);
  const room = detailRoom(size);
  const scroll = Math.min(details.scroll, Math.max(0, lines.length - room));
  return [titleLine(state), ...lines.slice(scroll, scroll + room)];
}

const linkStyles: Readonly<Record<Link, Span['style']>> = {
  connecting: 'yellow',
  live: 'green',
  looking: 'yellow',
  lost: 'red',
};

const linkWords: Readonly<Record<Link, string>> = {
  connecting: 'connecting',
  live: 'live',
  looking: 'looking every few seconds',
  lost: 'LOST, trying again',
};

function titleLine({ link, linkNote, held, where, nowMs, size }: State): Line {
  const left: Line = [
    { text: 'ductile ', style: 'bold' },
    { text: linkWords[link], style: linkStyles[link] },
    ...(held === undefined ? [] : [{ text: '  PAUSED', style: 'yellow' } as const]),
    ...(linkNote === '' ? [] : [{ text: `  ${linkNote}`, style: linkStyles[link] }]),
  ];
  const right = `${where}  ${formatTimeOfDay(nowMs)}`;
  const gap = size.columns - lineWidth(left) - lineWidth(line(right));
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
  if (dialog?.kind === 'filter') return [line(`/${state.filter}_  enter keeps it, esc drops it`)];
  if (dialog?.kind === 'help') return [line('any key goes back', 'gray')];
  if (dialog?.kind === 'confirm') {
    const { act, plan } = dialog;
    if (plan === undefined) return [line(`${act.says}: asking what that would do …`, 'yellow')];
    const told = plan.flatMap((text) => wrap(toVisibleText(text), state.size.columns));
    return [...told.map((text) => line(text, 'yellow')), line(`${act.says}? y/n`, 'bold')];
  }
  if (notice !== undefined) return [line(notice.text, notice.isBad ? 'red' : 'green')];
  if (details !== undefined)
    return [line('esc back  ? help  ↑↓ scroll  c cancel  r retry', 'gray')];
  return [
    line(
      '? help  q quit  ↑↓ enter details  1-5 views  / filter  c cancel  r retry  p pause',
      'gray',
    ),
  ];
}
