import type { JsonOutput } from '../../src/operation/define.ts';
import type { ResultRow } from '../../src/cli/print.ts';

export const viewNames = ['jobs', 'runs', 'schedules', 'incidents', 'plugins'] as const;
export type ViewName = (typeof viewNames)[number];

/** Rows of one view, or the problem that prevents them. */
export interface Part {
  readonly rows: readonly ResultRow[];
  readonly problem?: string;
}

/** Figures of the top line; forbidden or unknown ones are undefined. */
export interface Overview {
  readonly running?: number | undefined;
  readonly queued?: number | undefined;
  readonly failed?: number | undefined;
  readonly breakers?: number | undefined;
  readonly incidents?: number | undefined;
}

export interface Known {
  readonly overview: Overview;
  readonly parts: Readonly<Partial<Record<ViewName, Part>>>;
}

/** Ended attempts within a second. */
export interface Ends {
  readonly good: number;
  readonly bad: number;
}

/** `looking`: there is no stream, so the service is polled. */
export type Link = 'connecting' | 'live' | 'looking' | 'lost';

/** Row of a view, wherever it is in the list. */
export interface Ref {
  readonly view: ViewName;
  readonly key: string;
}

export interface Answer {
  /** The operation's name. */
  readonly name: string;
  readonly output: JsonOutput;
}

export interface Details {
  readonly ref: Ref;
  /** Undefined until they are loaded. */
  readonly answers?: readonly Answer[];
  readonly problem?: string;
  /** Lines above the screen. */
  readonly scroll: number;
}

/** Change that the user may request. */
export interface Act {
  readonly operation: string;
  readonly id: string;
  /** Text such as `cancel job 0199…`. */
  readonly says: string;
}

export type Dialog =
  | { readonly kind: 'help' }
  | { readonly kind: 'filter'; readonly before: string }
  /** Without a plan it is being loaded; the user can't confirm before it is shown. */
  | { readonly kind: 'confirm'; readonly act: Act; readonly plan?: readonly string[] };

export interface Notice {
  readonly text: string;
  readonly isBad: boolean;
}

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

export interface State {
  /** Service that is shown. */
  readonly where: string;
  readonly size: Size;
  readonly nowMs: number;
  readonly link: Link;
  readonly linkNote: string;
  readonly view: ViewName;
  /** Key of the row under the bar (default: the first row). */
  readonly marked: Readonly<Partial<Record<ViewName, string>>>;
  readonly known: Known;
  /** News since the view was paused. */
  readonly held: Known | undefined;
  readonly ends: readonly Ends[];
  readonly filter: string;
  readonly details: Details | undefined;
  readonly dialog: Dialog | undefined;
  readonly notice: Notice | undefined;
}

/** Effects that the screen requests. */
export type Wish =
  | { readonly kind: 'quit' | 'suspend' | 'redraw' | 'look' }
  | { readonly kind: 'details'; readonly ref: Ref }
  | { readonly kind: 'plan' | 'act'; readonly act: Act };

export interface Step {
  readonly state: State;
  readonly wish?: Wish;
}

export const SECONDS_KEPT = 60;
const nothing: Ends = { good: 0, bad: 0 };

export function beginState(where: string, size: Size, nowMs: number): State {
  return {
    where,
    size,
    nowMs,
    link: 'connecting',
    linkNote: '',
    view: 'jobs',
    marked: {},
    known: { overview: {}, parts: {} },
    held: undefined,
    ends: Array.from({ length: SECONDS_KEPT }, () => nothing),
    filter: '',
    details: undefined,
    dialog: undefined,
    notice: undefined,
  };
}
