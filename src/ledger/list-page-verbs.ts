import type { Store } from './dialect.ts';
import type { ListPageVerbs } from './list-pages.ts';
import { readDeliveryPage } from './queries/delivery-page.ts';
import { readDirectivePage } from './queries/directive-page.ts';
import { readRunPage } from './queries/run-page.ts';
import { readSignalPage } from './queries/signal-page.ts';

export function makeListPageVerbs({ read }: Store): ListPageVerbs {
  return {
    signalPage: (filter) => read((session) => readSignalPage(session, filter)),
    directivePage: (filter) => read((session) => readDirectivePage(session, filter)),
    runPage: (filter) => read((session) => readRunPage(session, filter)),
    deliveryPage: (filter) => read((session) => readDeliveryPage(session, filter)),
  };
}
