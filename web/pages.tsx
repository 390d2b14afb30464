import type { FunctionComponent } from 'preact';
import type { Route } from './route.ts';
import { DirectivePage } from './directive/directive.tsx';
import { DirectivesPage } from './directive/directives.tsx';
import { FindingsPage } from './finding/findings.tsx';
import { IncidentPage } from './incident/incident.tsx';
import { IncidentsPage } from './incident/incidents.tsx';
import { JobPage } from './job/job.tsx';
import { JobsPage } from './job/jobs.tsx';
import { nouns } from './nouns.ts';
import { OverviewPage } from './overview/overview.tsx';
import { PackagePage, PackagesPage } from './package/packages.tsx';
import { PluginPage, PluginsPage } from './plugin/plugins.tsx';
import { RunPage } from './run/run.tsx';
import { RunsPage } from './run/runs.tsx';
import { SchedulePage } from './schedule/schedule.tsx';
import { SchedulesPage } from './schedule/schedules.tsx';
import { SignalPage } from './signal/signal.tsx';
import { SignalsPage } from './signal/signals.tsx';
import { TenantPage } from './tenant/tenant.tsx';
import { TenantsPage } from './tenant/tenants.tsx';
import { Empty, Head } from './ui/parts.tsx';
import { WebhookPage } from './webhook/webhook.tsx';
import { WebhooksPage } from './webhook/webhooks.tsx';

type Page = FunctionComponent<{ readonly route: Route }>;

/** List page and detail page, by noun. */
const pages: ReadonlyMap<string, readonly [all: Page, one?: Page]> = new Map<
  string,
  readonly [Page, Page?]
>([
  ['overview', [OverviewPage]],
  ['doctor', [FindingsPage]],
  ['incidents', [IncidentsPage, IncidentPage]],
  ['jobs', [JobsPage, JobPage]],
  ['runs', [RunsPage, RunPage]],
  ['signals', [SignalsPage, SignalPage]],
  ['schedules', [SchedulesPage, SchedulePage]],
  ['webhooks', [WebhooksPage, WebhookPage]],
  ['plugins', [PluginsPage, PluginPage]],
  ['packages', [PackagesPage, PackagePage]],
  ['directives', [DirectivesPage, DirectivePage]],
  ['tenants', [TenantsPage, TenantPage]],
]);

export function pageOf({ page, id }: Route): { readonly Page: Page; readonly title: string } {
  const [All = NotFound, One] = pages.get(page) ?? [];
  const title = nouns.find(([name]) => name === page)?.[1] ?? 'Not found';
  return { Page: id === undefined ? All : (One ?? NotFound), title };
}

function NotFound() {
  return (
    <>
      <Head title="Not found" />
      <Empty>There is no such page.</Empty>
    </>
  );
}
