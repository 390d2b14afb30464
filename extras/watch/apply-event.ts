import type { Key } from './keys.ts';
import { applyKey } from './apply-key.ts';
import type {
  Action,
  DetailResult,
  Dialog,
  EndCounts,
  Link,
  Notice,
  Overview,
  ViewPart,
  Ref,
  Size,
  State,
  StateChange,
  ViewName,
} from './state.ts';

/** Event that changes the screen. */
export type ScreenEvent =
  | { readonly kind: 'key'; readonly key: Key }
  | { readonly kind: 'size'; readonly size: Size }
  /** A second has passed; these attempts ended in it. */
  | { readonly kind: 'second'; readonly nowMs: number; readonly endCounts: EndCounts }
  | { readonly kind: 'link'; readonly link: Link; readonly note?: string }
  | { readonly kind: 'overview'; readonly overview: Overview }
  | { readonly kind: 'part'; readonly view: ViewName; readonly part: ViewPart }
  | {
      readonly kind: 'details';
      readonly ref: Ref;
      readonly outcome:
        | { readonly results: readonly DetailResult[] }
        | { readonly problem: string };
    }
  | { readonly kind: 'plan'; readonly action: Action; readonly plan: readonly string[] }
  /** A change was made, or could not be planned or made. */
  | { readonly kind: 'done'; readonly action: Action; readonly notice: Notice };

/** Computes the next state and its effects. */
export function applyEvent(state: State, event: ScreenEvent): StateChange {
  if (event.kind === 'key') return applyKey(state, event.key);
  return { state: apply(state, event) };
}

function apply(state: State, event: Exclude<ScreenEvent, { readonly kind: 'key' }>): State {
  switch (event.kind) {
    case 'size':
      return { ...state, size: event.size };
    case 'second':
      return {
        ...state,
        nowMs: event.nowMs,
        endCounts: [...state.endCounts.slice(1), event.endCounts],
      };
    case 'link':
      return { ...state, link: event.link, linkNote: event.note ?? '' };
    case 'overview':
      return mergeData(state, { overview: event.overview });
    case 'part':
      return mergeData(state, { parts: { [event.view]: event.part } });
    case 'details':
      return applyDetails(state, event);
    case 'plan':
      return applyPlan(state, event);
    case 'done':
      return {
        ...state,
        notice: event.notice,
        dialog: isAbout(state.dialog, event.action) ? undefined : state.dialog,
      };
    default:
      return event satisfies never;
  }
}

function applyPlan(
  state: State,
  { action, plan }: Extract<ScreenEvent, { readonly kind: 'plan' }>,
): State {
  // The user may have declined before the plan arrived.
  if (!isAbout(state.dialog, action)) return state;
  return { ...state, dialog: { kind: 'confirm', action, plan } };
}

function isAbout(dialog: Dialog | undefined, action: Action): boolean {
  return dialog?.kind === 'confirm' && dialog.action === action;
}

/** Merges new data; a paused screen stores it and shows it later. */
function mergeData(
  state: State,
  update: { overview?: Overview; parts?: State['data']['parts'] },
): State {
  const before = state.pendingData ?? state.data;
  const data = {
    overview: update.overview ?? before.overview,
    parts: { ...before.parts, ...update.parts },
  };
  return state.pendingData === undefined ? { ...state, data } : { ...state, pendingData: data };
}

function applyDetails(
  state: State,
  { ref, outcome }: Extract<ScreenEvent, { readonly kind: 'details' }>,
): State {
  const { details } = state;
  // The user may have moved to another row.
  if (details?.ref.view !== ref.view || details.ref.key !== ref.key) return state;
  if (state.pendingData !== undefined && details.results !== undefined) return state;
  return { ...state, details: { ref, scroll: details.scroll, ...outcome } };
}
