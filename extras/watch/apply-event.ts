import type { Key } from './keys.ts';
import { press } from './apply-key.ts';
import type {
  Act,
  Answer,
  Dialog,
  Ends,
  Link,
  Notice,
  Overview,
  Part,
  Ref,
  Size,
  State,
  Step,
  ViewName,
} from './state.ts';

/** Events of the screen. */
export type Happening =
  | { readonly kind: 'key'; readonly key: Key }
  | { readonly kind: 'size'; readonly size: Size }
  /** A second has passed; these attempts ended in it. */
  | { readonly kind: 'second'; readonly nowMs: number; readonly ends: Ends }
  | { readonly kind: 'link'; readonly link: Link; readonly note?: string }
  | { readonly kind: 'overview'; readonly overview: Overview }
  | { readonly kind: 'part'; readonly view: ViewName; readonly part: Part }
  | {
      readonly kind: 'details';
      readonly ref: Ref;
      readonly told: { readonly answers: readonly Answer[] } | { readonly problem: string };
    }
  | { readonly kind: 'plan'; readonly act: Act; readonly plan: readonly string[] }
  /** A change was made, or could not be planned or made. */
  | { readonly kind: 'done'; readonly act: Act; readonly notice: Notice };

/** Computes the next state and its effects. */
export function step(state: State, happening: Happening): Step {
  if (happening.kind === 'key') return press(state, happening.key);
  return { state: take(state, happening) };
}

function take(state: State, happening: Exclude<Happening, { readonly kind: 'key' }>): State {
  switch (happening.kind) {
    case 'size':
      return { ...state, size: happening.size };
    case 'second':
      return {
        ...state,
        nowMs: happening.nowMs,
        ends: [...state.ends.slice(1), happening.ends],
      };
    case 'link':
      return { ...state, link: happening.link, linkNote: happening.note ?? '' };
    case 'overview':
      return learn(state, { overview: happening.overview });
    case 'part':
      return learn(state, { parts: { [happening.view]: happening.part } });
    case 'details':
      return takeDetails(state, happening);
    case 'plan':
      return takePlan(state, happening);
    case 'done':
      return {
        ...state,
        notice: happening.notice,
        dialog: isAbout(state.dialog, happening.act) ? undefined : state.dialog,
      };
    default:
      return happening satisfies never;
  }
}

function takePlan(
  state: State,
  { act, plan }: Extract<Happening, { readonly kind: 'plan' }>,
): State {
  // The user may have declined before the plan arrived.
  if (!isAbout(state.dialog, act)) return state;
  return { ...state, dialog: { kind: 'confirm', act, plan } };
}

function isAbout(dialog: Dialog | undefined, act: Act): boolean {
  return dialog?.kind === 'confirm' && dialog.act === act;
}

/** A paused screen stores news and shows them later. */
function learn(
  state: State,
  news: { overview?: Overview; parts?: State['known']['parts'] },
): State {
  const before = state.held ?? state.known;
  const known = {
    overview: news.overview ?? before.overview,
    parts: { ...before.parts, ...news.parts },
  };
  return state.held === undefined ? { ...state, known } : { ...state, held: known };
}

function takeDetails(
  state: State,
  { ref, told }: Extract<Happening, { readonly kind: 'details' }>,
): State {
  const { details } = state;
  // The user may have moved to another row.
  if (details?.ref.view !== ref.view || details.ref.key !== ref.key) return state;
  if (state.held !== undefined && details.answers !== undefined) return state;
  return { ...state, details: { ref, scroll: details.scroll, ...told } };
}
