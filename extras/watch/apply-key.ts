import { renderDetails, detailHeight } from './details.ts';
import type { Key } from './keys.ts';
import { viewNames } from './state.ts';
import type { Dialog, Ref, State, StateChange } from './state.ts';
import { createAction, definitions, markedIndex, shownRows } from './tables.ts';

const PAGE = 10;
const FILTER_CHARS_MAX = 80;

/** Applies a key, depending on what is open. */
export function applyKey(before: State, key: Key): StateChange {
  const { dialog, details } = before;
  if ('pasted' in key) {
    // Pasted text must not act as keys.
    return { state: dialog?.kind === 'filter' ? typeFilter(before, key.pasted) : before };
  }
  const { name } = key;
  if (name === 'interrupt') return { state: before, effect: { kind: 'quit' } };
  if (name === 'suspend') return { state: before, effect: { kind: 'suspend' } };
  if (name === 'redraw') return { state: before, effect: { kind: 'redraw' } };
  if (dialog?.kind === 'filter') return { state: applyFilterKey(before, dialog, name) };
  const state = { ...before, notice: undefined };
  if (dialog?.kind === 'confirm') return applyConfirmKey(state, dialog, name);
  // Any key leaves the help.
  if (dialog?.kind === 'help') return { state: { ...state, dialog: undefined } };
  return (
    applyGlobalKey(state, name) ??
    (details ? applyDetailsKey(state, name) : applyListKey(state, name))
  );
}

function applyGlobalKey(state: State, name: string): StateChange | undefined {
  const view = viewNames[Number(name) - 1];
  if (view !== undefined) return openView(state, view);
  switch (name) {
    case 'tab':
    case 'back-tab': {
      const at = viewNames.indexOf(state.view) + (name === 'tab' ? 1 : viewNames.length - 1);
      return openView(state, viewNames[at % viewNames.length] ?? 'jobs');
    }
    case '?':
      return { state: { ...state, dialog: { kind: 'help' } } };
    case 'p':
      return { state: togglePause(state) };
    case 'c':
      return requestAction(state, 'cancel');
    case 'r':
      return requestAction(state, 'retry');
    default:
      return undefined;
  }
}

function openView(state: State, view: State['view']): StateChange {
  return { state: { ...state, view, details: undefined }, effect: { kind: 'refresh' } };
}

function togglePause(state: State): State {
  const { pendingData, data } = state;
  return pendingData === undefined
    ? { ...state, pendingData: data }
    : { ...state, data: pendingData, pendingData: undefined };
}

function requestAction(state: State, verb: 'cancel' | 'retry'): StateChange {
  const ref = state.details?.ref ?? markedRef(state);
  if (ref === undefined) return { state };
  const action = createAction(ref.view, ref.key, verb);
  if (action === undefined) {
    const { title } = definitions[ref.view];
    const text = `You can't ${verb} ${title.toLowerCase()}. Press 1 for jobs.`;
    return { state: { ...state, notice: { text, isError: true } } };
  }
  return {
    state: { ...state, dialog: { kind: 'confirm', action } },
    effect: { kind: 'plan', action },
  };
}

function applyConfirmKey(
  state: State,
  { action, plan }: Extract<Dialog, { readonly kind: 'confirm' }>,
  name: string,
): StateChange {
  if (name === 'y' && plan !== undefined) {
    const notice = { text: `Requested: ${action.label} …`, isError: false };
    return { state: { ...state, dialog: undefined, notice }, effect: { kind: 'action', action } };
  }
  // A key typed before the question was shown isn't an answer to it.
  if (plan === undefined && name !== 'escape' && name !== 'n') return { state };
  const notice = { text: 'Nothing was done.', isError: false };
  return { state: { ...state, dialog: undefined, notice } };
}

function applyFilterKey(
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

function applyDetailsKey(state: State, name: string): StateChange {
  const { details } = state;
  if (details === undefined || name === 'escape' || name === 'q' || name === 'left')
    return { state: { ...state, details: undefined } };
  const last = Math.max(0, renderDetails(state).length - detailHeight(state.size));
  const scroll = moveBy(Math.min(details.scroll, last), last, name);
  return scroll === undefined
    ? { state }
    : { state: { ...state, details: { ...details, scroll } } };
}

function applyListKey(state: State, name: string): StateChange {
  if (name === 'q') return { state, effect: { kind: 'quit' } };
  if (name === '/') {
    return { state: { ...state, dialog: { kind: 'filter', before: state.filter } } };
  }
  if (name === 'escape') return { state: { ...state, filter: '' } };
  if (name === 'enter' || name === 'right') {
    const ref = markedRef(state);
    if (ref === undefined) return { state };
    const details = { ref, scroll: 0 };
    return { state: { ...state, details }, effect: { kind: 'details', ref } };
  }
  const rows = shownRows(state);
  const at = moveBy(markedIndex(state), rows.length - 1, name);
  const row = at === undefined ? undefined : rows[at];
  if (row === undefined) return { state };
  const marked = { ...state.marked, [state.view]: definitions[state.view].keyOf(row) };
  // At the top the bar stays at the top when rows arrive.
  if (at === 0) delete marked[state.view];
  return { state: { ...state, marked } };
}

function moveBy(at: number, last: number, name: string): number | undefined {
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
