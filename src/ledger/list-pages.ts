import type { Directive } from '../directive/directive.ts';
import type { Run } from '../pipeline/run/run.ts';
import type { Signal } from '../signal/signal.ts';
import type { DirectiveFilter } from '../directive/types.ts';
import type { RunFilter } from '../pipeline/run/types.ts';
import type { SignalFilter } from '../signal/types.ts';
import type { DeliveryFilter, DeliveryRow } from '../webhook/types.ts';

/** Lists for people, besides that of jobs. Each looks at a bounded number of rows, whatever the filter. */
export interface ListPageVerbs {
  signalPage(filter: SignalPageFilter): Promise<ListPage<Signal>>;
  directivePage(filter: DirectivePageFilter): Promise<ListPage<Directive>>;
  runPage(filter: RunPageFilter): Promise<ListPage<Run>>;
  deliveryPage(filter: DeliveryPageFilter): Promise<ListPage<DeliveryRow>>;
}

export interface ListPage<T> {
  readonly rows: readonly T[];
  /** `beforeSeq` of the next page; undefined on the last page. Earlier pages may be short. */
  readonly next: number | undefined;
}

/** Rows that a page may look at, unless that is the usual number. */
interface VisitLimit {
  readonly visitMax?: number;
}

export type SignalPageFilter = VisitLimit &
  Pick<
    SignalFilter,
    | 'type'
    | 'source'
    | 'subjectType'
    | 'subjectId'
    | 'correlationId'
    | 'visibility'
    | 'from'
    | 'to'
    | 'beforeSeq'
    | 'order'
    | 'limit'
  >;

export type DirectivePageFilter = VisitLimit &
  Pick<
    DirectiveFilter,
    'type' | 'status' | 'actor' | 'target' | 'awaitingApproval' | 'beforeSeq' | 'limit'
  >;

export type RunPageFilter = VisitLimit &
  Pick<RunFilter, 'pipeline' | 'status' | 'awaitingApproval' | 'beforeSeq' | 'limit'>;

export type DeliveryPageFilter = VisitLimit &
  Pick<DeliveryFilter, 'hookId' | 'verdict' | 'beforeSeq' | 'limit'>;
