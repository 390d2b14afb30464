import type { JsonOutput } from '../../src/operation/define.ts';
import type { ResultRow } from '../../src/cli/print.ts';

export const viewNames = ['jobs', 'runs', 'schedules', 'incidents', 'plugins'] as const;
export type ViewName = (typeof viewNames)[number];

/** Rows of one view, or the problem that prevents them. */
export interface ViewPart {
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

export interface ViewData {
  readonly overview: Overview;
  readonly parts: Readonly<Partial<Record<ViewName, ViewPart>>>;
}

/** Ended attempts within a second. */
export interface EndCounts {
  readonly good: number;
  readonly bad: number;
}

/** `polling`: there is no stream, so the service is polled. */
export type Link = 'connecting' | 'live' | 'polling' | 'lost';

/** Reference to a row of a view, whatever its position in the list. */
export interface Ref {
  readonly view: ViewName;
  readonly key: string;
}

export interface DetailResult {
  /** The operation's name. */
  readonly name: string;
  readonly output: JsonOutput;
}

export interface Details {
  readonly ref: Ref;
  /** Undefined until they are loaded. */
  readonly results?: readonly DetailResult[];
  readonly problem?: string;
  /** Number of lines that are scrolled off the top. */
  readonly scroll: number;
}

/** Change that a key requests. */
export interface Action {
  readonly operation: string;
  readonly id: string;
  /** Text such as `cancel job 0199…`. */
  readonly label: string;
}

export type Dialog =
  | { readonly kind: 'help' }
  | { readonly kind: 'filter'; readonly before: string }
  /** The plan is undefined while it is loaded. The user can't confirm before it is shown. */
  | { readonly kind: 'confirm'; readonly action: Action; readonly plan?: readonly string[] };

export interface Notice {
  readonly text: string;
  readonly isError: boolean;
}

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

export interface State {
  readonly serviceName: string;
  readonly size: Size;
  readonly nowMs: number;
  readonly link: Link;
  readonly linkNote: string;
  readonly view: ViewName;
  /** Key of the row under the bar (default: the first row). */
  readonly marked: Readonly<Partial<Record<ViewName, string>>>;
  readonly data: ViewData;
  /** Data that arrived since the view was paused; undefined when it isn't paused. */
  readonly pendingData: ViewData | undefined;
  readonly endCounts: readonly EndCounts[];
  readonly filter: string;
  readonly details: Details | undefined;
  readonly dialog: Dialog | undefined;
  readonly notice: Notice | undefined;
}

/** Effect that a change of the state requests from the screen. */
export type Effect =
  | { readonly kind: 'quit' | 'suspend' | 'redraw' | 'refresh' }
  | { readonly kind: 'details'; readonly ref: Ref }
  | { readonly kind: 'plan' | 'action'; readonly action: Action };

export interface StateChange {
  readonly state: State;
  readonly effect?: Effect;
}

export const RATE_SECONDS = 60;
const nothing: EndCounts = { good: 0, bad: 0 };

export function createState(serviceName: string, size: Size, nowMs: number): State {
  return {
    serviceName,
    size,
    nowMs,
    link: 'connecting',
    linkNote: '',
    view: 'jobs',
    marked: {},
    data: { overview: {}, parts: {} },
    pendingData: undefined,
    endCounts: Array.from({ length: RATE_SECONDS }, () => nothing),
    filter: '',
    details: undefined,
    dialog: undefined,
    notice: undefined,
  };
}
