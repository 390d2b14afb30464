import type { Store } from './dialect.ts';
import type { ListPageVerbs } from './list-pages.ts';
import { readDeliveryPage } from '../webhook/delivery-page.sql.ts';
import { readDirectivePage } from '../directive/directive-page.sql.ts';
import { readRunPage } from '../pipeline/run/run-page.sql.ts';
import { readSignalPage } from '../signal/signal.sql.ts';

export function makeListPageVerbs({ read }: Store): ListPageVerbs {
  return {
    signalPage: (filter) => read((session) => readSignalPage(session, filter)),
    directivePage: (filter) => read((session) => readDirectivePage(session, filter)),
    runPage: (filter) => read((session) => readRunPage(session, filter)),
    deliveryPage: (filter) => read((session) => readDeliveryPage(session, filter)),
  };
}
