import type { JsonOutput } from '../../src/operation/define.ts';
import type { ResultRow } from '../../src/cli/print.ts';

export const viewNames = ['jobs', 'runs', 'schedules', 'incidents', 'plugins'] as const;
export type ViewName = (typeof viewNames)[number];

/** What one view shows, or why it cannot. */
export interface Part {
  readonly rows: readonly ResultRow[];
  readonly problem?: string;
}

/** Figures for the line on top; one that may not be seen, or is not known yet, is undefined. */
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

/** How attempts ended within a second. */
export interface Ends {
  readonly good: number;
  readonly bad: number;
}

/** `looking`: there is no stream to be had, so the server is asked now and then. */
export type Link = 'connecting' | 'live' | 'looking' | 'lost';

/** One row of a view, whatever becomes of its place in the list. */
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
  /** Undefined until they are there. */
  readonly answers?: readonly Answer[];
  readonly problem?: string;
  /** How many lines are above the screen. */
  readonly scroll: number;
}

/** A change that somebody may ask for. */
export interface Act {
  readonly operation: string;
  readonly id: string;
  /** Such as `cancel job 0199…`. */
  readonly says: string;
}

export type Dialog =
  | { readonly kind: 'help' }
  | { readonly kind: 'filter'; readonly before: string }
  /** Without a plan it is still being made; it cannot be agreed to before it was shown. */
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
  /** The server that is asked. */
  readonly where: string;
  readonly size: Size;
  readonly nowMs: number;
  readonly link: Link;
  readonly linkNote: string;
  readonly view: ViewName;
  /** The row under the bar, by its key; the first one unless told. */
  readonly marked: Readonly<Partial<Record<ViewName, string>>>;
  readonly known: Known;
  /** While the view is paused: what has become known since. */
  readonly held: Known | undefined;
  readonly ends: readonly Ends[];
  readonly filter: string;
  readonly details: Details | undefined;
  readonly dialog: Dialog | undefined;
  readonly notice: Notice | undefined;
}

/** What the screen wants of the world around it. */
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
