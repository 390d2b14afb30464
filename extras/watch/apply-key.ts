import { detailLines, detailRoom } from './details.ts';
import type { Key } from './keys.ts';
import { viewNames } from './state.ts';
import type { Dialog, Ref, State, Step } from './state.ts';
import { actOn, definitions, markedIndex, shownRows } from './tables.ts';

const PAGE = 10;
const FILTER_CHARS_MAX = 80;

/** Applies a key, depending on what is open. */
export function press(before: State, key: Key): Step {
  const { dialog, details } = before;
  if ('pasted' in key) {
    // Pasted text must not act as keys.
    return { state: dialog?.kind === 'filter' ? typeFilter(before, key.pasted) : before };
  }
  const { name } = key;
  if (name === 'interrupt') return { state: before, wish: { kind: 'quit' } };
  if (name === 'suspend') return { state: before, wish: { kind: 'suspend' } };
  if (name === 'redraw') return { state: before, wish: { kind: 'redraw' } };
  if (dialog?.kind === 'filter') return { state: pressInFilter(before, dialog, name) };
  const state = { ...before, notice: undefined };
  if (dialog?.kind === 'confirm') return pressInConfirm(state, dialog, name);
  // Any key leaves the help.
  if (dialog?.kind === 'help') return { state: { ...state, dialog: undefined } };
  return (
    pressAnywhere(state, name) ?? (details ? pressInDetails(state, name) : pressInList(state, name))
  );
}

function pressAnywhere(state: State, name: string): Step | undefined {
  const view = viewNames[Number(name) - 1];
  if (view !== undefined) return goTo(state, view);
  switch (name) {
    case 'tab':
    case 'back-tab': {
      const at = viewNames.indexOf(state.view) + (name === 'tab' ? 1 : viewNames.length - 1);
      return goTo(state, viewNames[at % viewNames.length] ?? 'jobs');
    }
    case '?':
      return { state: { ...state, dialog: { kind: 'help' } } };
    case 'p':
      return { state: pauseOrGoOn(state) };
    case 'c':
      return askFor(state, 'cancel');
    case 'r':
      return askFor(state, 'retry');
    default:
      return undefined;
  }
}

function goTo(state: State, view: State['view']): Step {
  return { state: { ...state, view, details: undefined }, wish: { kind: 'look' } };
}

function pauseOrGoOn(state: State): State {
  const { held, known } = state;
  return held === undefined
    ? { ...state, held: known }
    : { ...state, known: held, held: undefined };
}

function askFor(state: State, verb: 'cancel' | 'retry'): Step {
  const ref = state.details?.ref ?? markedRef(state);
  if (ref === undefined) return { state };
  const act = actOn(ref.view, ref.key, verb);
  if (act === undefined) {
    const { title } = definitions[ref.view];
    const text = `${title} have nothing to ${verb}; 1 shows the jobs`;
    return { state: { ...state, notice: { text, isBad: true } } };
  }
  return { state: { ...state, dialog: { kind: 'confirm', act } }, wish: { kind: 'plan', act } };
}

function pressInConfirm(
  state: State,
  { act, plan }: Extract<Dialog, { readonly kind: 'confirm' }>,
  name: string,
): Step {
  if (name === 'y' && plan !== undefined) {
    const notice = { text: `asking to ${act.says} …`, isBad: false };
    return { state: { ...state, dialog: undefined, notice }, wish: { kind: 'act', act } };
  }
  // A key typed before the question was shown isn't an answer to it.
  if (plan === undefined && name !== 'escape' && name !== 'n') return { state };
  const notice = { text: 'Nothing was done.', isBad: false };
  return { state: { ...state, dialog: undefined, notice } };
}

function pressInFilter(
  state: State,
  { before }: Extract<Dialog, { readonly kind: 'filter' }>,
  name: string,
): State {
  if (name === 'enter') return { ...state, dialog: undefined };
  if (name === 'escape') return { ...state, dialog: undefined, filter: before };
  if (name === 'erase') return { ...state, filter: '' };
  if (name === 'backspace') return { ...state, filter: state.filter.replace(/.$/u, '') };
  // Names of other keys are longer than one character.
  return /^.$/u.test(name) ? typeFilter(state, name) : state;
}

function typeFilter(state: State, text: string): State {
  const typed = text.replaceAll(/\p{Cc}+/gu, ' ');
  return { ...state, filter: `${state.filter}${typed}`.slice(0, FILTER_CHARS_MAX).toWellFormed() };
}

function pressInDetails(state: State, name: string): Step {
  const { details } = state;
  if (details === undefined || name === 'escape' || name === 'q' || name === 'left')
    return { state: { ...state, details: undefined } };
  const last = Math.max(0, detailLines(state).length - detailRoom(state.size));
  const scroll = move(Math.min(details.scroll, last), last, name);
  return scroll === undefined
    ? { state }
    : { state: { ...state, details: { ...details, scroll } } };
}

function pressInList(state: State, name: string): Step {
  if (name === 'q') return { state, wish: { kind: 'quit' } };
  if (name === '/') {
    return { state: { ...state, dialog: { kind: 'filter', before: state.filter } } };
  }
  if (name === 'escape') return { state: { ...state, filter: '' } };
  if (name === 'enter' || name === 'right') {
    const ref = markedRef(state);
    if (ref === undefined) return { state };
    const details = { ref, scroll: 0 };
    return { state: { ...state, details }, wish: { kind: 'details', ref } };
  }
  const rows = shownRows(state);
  const at = move(markedIndex(state), rows.length - 1, name);
  const row = at === undefined ? undefined : rows[at];
  if (row === undefined) return { state };
  const marked = { ...state.marked, [state.view]: definitions[state.view].keyOf(row) };
  // At the top the bar stays at the top when rows arrive.
  if (at === 0) delete marked[state.view];
  return { state: { ...state, marked } };
}

function move(at: number, last: number, name: string): number | undefined {
  const by: Readonly<Record<string, number>> = {
    up: -1,
    k: -1,
    down: 1,
    j: 1,
    'page-up': -PAGE,
    'page-down': PAGE,
    ' ': PAGE,
    home: -Infinity,
    g: -Infinity,
    end: Infinity,
    G: Infinity,
  };
  const distance = by[name];
  return distance === undefined ? undefined : Math.max(0, Math.min(last, at + distance));
}

function markedRef(state: State): Ref | undefined {
  const row = shownRows(state)[markedIndex(state)];
  return row === undefined
    ? undefined
    : { view: state.view, key: definitions[state.view].keyOf(row) };
}
