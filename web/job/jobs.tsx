import type { Job, Input, Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { count, duration } from '../text/time.ts';
import { Choice, Pager, Select, Typed } from '../ui/filters.tsx';
import { Named } from '../ui/named.tsx';
import { Empty, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Id, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';

const ROWS = 50;

const states = [
  ['', 'All'],
  ['queued', 'Queued'],
  ['running', 'Running'],
  ['succeeded', 'Succeeded'],
  ['failed,dead,timed_out', 'Failed'],
  ['cancelled,skipped', 'Cancelled'],
] as const;

const origins = [
  ['', 'Any origin'],
  ...['scheduler', 'webhook', 'route', 'api', 'cli', 'directive', 'replay'].map(
    (origin) => [origin, origin] as const,
  ),
] as const;

export function JobsPage({ route }: { readonly route: Route }) {
  const { query } = route;
  const plugins = useCall('plugin.list', {});
  const jobs = useCall('job.list', toInput(query), query['cursor'] === undefined ? ['job.'] : []);
  const names = plugins.data?.plugins.map(({ name }) => [name, name] as const) ?? [];
  const chosen = query['plugin'] ?? '';
  const isListed = chosen === '' || names.some(([name]) => name === chosen);
  return (
    <>
      <Head title="Jobs" about={<Total list={jobs.data} />} />
      <div class="filters">
        <Choice route={route} name="status" label="Status" options={states} />
        <Select
          route={route}
          name="plugin"
          label="Plugin"
          options={[['', 'Any plugin'], ...(isListed ? [] : [[chosen, chosen] as const]), ...names]}
        />
        <Select route={route} name="submitted_by" label="Origin" options={origins} />
        <Typed route={route} name="query" label="Error contains…" />
      </div>
      <Loaded call={jobs}>
        {({ jobs: rows, next_cursor }) => (
          <>
            {rows.length === 0 ? (
              <NoJobs isFiltered={Object.keys(query).length > 0} />
            ) : (
              <JobTable jobs={rows} label="Jobs" />
            )}
            <Pager route={route} next={next_cursor} />
          </>
        )}
      </Loaded>
    </>
  );
}

function toInput(query: Readonly<Record<string, string>>): Input<'job.list'> {
  const { status, plugin, submitted_by, query: words, cursor, command } = query;
  return {
    limit: ROWS,
    ...(status ? { status: status.split(',') as Job['status'][] } : {}),
    ...(plugin ? { plugin } : {}),
    ...(command ? { command } : {}),
    ...(submitted_by ? { submitted_by: submitted_by as 'api' } : {}),
    ...(words ? { query: words } : {}),
    ...(cursor ? { cursor } : {}),
  };
}

function Total({ list }: { readonly list: Output<'job.list'> | undefined }) {
  if (list === undefined) return null;
  const { total, total_is: is } = list;
  const many = is === 'at_least' ? `at least ${count(total)}` : count(total);
  return <>{total === 1 && is === 'exact' ? '1 job' : `${many} jobs`}</>;
}

function NoJobs({ isFiltered }: { readonly isFiltered: boolean }) {
  return isFiltered ? (
    <Empty>No jobs match these filters.</Empty>
  ) : (
    <Empty command="ductile plugin run echo">No job has run yet. Start one:</Empty>
  );
}

interface JobTableProps {
  readonly jobs: readonly Job[];
  readonly label: string;
  /** Shows fewer columns, for tables beside other content. */
  readonly isShort?: boolean;
}

export function JobTable({ jobs, label, isShort = false }: JobTableProps) {
  return (
    <Table
      label={label}
      rows={jobs}
      columns={isShort ? columns.filter(({ title }) => shortTitles.has(title)) : columns}
      keyOf={({ job_id }) => job_id}
      href={({ job_id }) => link('jobs', { id: job_id })}
    />
  );
}

const columns: readonly Column<Job>[] = [
  {
    title: 'Command',
    kind: 'grow',
    cell: ({ job_id, plugin, command, last_error }) => (
      <Named
        href={link('jobs', { id: job_id })}
        value={plugin}
        apart={command}
        error={last_error}
      />
    ),
  },
  {
    title: 'Status',
    cell: ({ status, retried_as: retry = null }) => (
      <>
        <Status value={status} />
        {retry !== null && (
          <a class="small" href={link('jobs', { id: retry })}>
            retried
          </a>
        )}
      </>
    ),
  },
  { title: 'Id', from: 'middle', cell: ({ job_id }) => <Id id={job_id} /> },
  {
    title: 'Attempt',
    from: 'wide',
    kind: 'number',
    cell: ({ attempt, max_attempts }) => (
      <>
        {attempt}
        <span class="soft">/{max_attempts}</span>
      </>
    ),
  },
  { title: 'Origin', from: 'wide', cell: ({ submitted_by }) => <Text value={submitted_by} /> },
  {
    title: 'Duration',
    from: 'middle',
    kind: 'number',
    cell: (job) => <>{duration(tookMs(job))}</>,
  },
  {
    title: 'Created',
    kind: 'number',
    cell: ({ created_at }) => <Time at={created_at} />,
  },
];

const shortTitles = new Set(['Command', 'Status', 'Created']);

function tookMs({ started_at, completed_at }: Job): number | null {
  if (started_at === null || completed_at === null) return null;
  return Math.max(0, Date.parse(completed_at) - Date.parse(started_at));
}
