import type { Directive } from '../directive/directive.ts';
import type { DirectivePageFilter } from '../directive/types.ts';
import type { Run } from '../pipeline/run/run.ts';
import type { RunPageFilter } from '../pipeline/run/types.ts';
import type { Signal } from '../signal/signal.ts';
import type { SignalPageFilter } from '../signal/types.ts';
import type { DeliveryPageFilter, DeliveryRow } from '../webhook/types.ts';
import type { ListPage } from './walk.ts';

/** Lists for people, besides that of jobs. Each looks at a bounded number of rows, whatever the filter. */
export interface ListPageVerbs {
  signalPage(filter: SignalPageFilter): Promise<ListPage<Signal>>;
  directivePage(filter: DirectivePageFilter): Promise<ListPage<Directive>>;
  runPage(filter: RunPageFilter): Promise<ListPage<Run>>;
  deliveryPage(filter: DeliveryPageFilter): Promise<ListPage<DeliveryRow>>;
}
