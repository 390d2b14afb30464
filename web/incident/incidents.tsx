import type { Incident } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { count } from '../text/time.ts';
import { Choice, Pager, Select } from '../ui/filters.tsx';
import { Empty, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Line, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';

const ROWS = 50;

const states = [
  ['', 'Open'],
  ['all', 'All'],
] as const;

/** Kinds that the filter offers even if no listed incident has them. */
const knownKinds = [
  'run_halted',
  'job_dead',
  'failure_streak',
  'breaker_open',
  'schedule_overdue',
  'queue_stalled',
  'poison_job',
  'disk_full',
  'plugin_not_loaded',
  'ledger_damaged',
  'hops_limit',
  'crash_loop',
  'job_overlong',
  'work_suppressed',
  'plugin_env_missing',
];

function listKinds(shown: readonly string[]): (readonly [value: string, text: string])[] {
  const kinds = [...new Set([...knownKinds, ...shown])];
  return [['', 'Any kind'], ...kinds.map((kind) => [kind, kind.replaceAll('_', ' ')] as const)];
}

export function IncidentsPage({ route }: { readonly route: Route }) {
  const { status, kind, cursor } = route.query;
  const incidents = useCall(
    'incident.list',
    {
      limit: ROWS,
      ...(status === 'all' ? { all: true } : {}),
      ...(kind ? { kind } : {}),
      ...(cursor ? { cursor } : {}),
    },
    cursor === undefined ? ['incident.'] : [],
  );
  const shown = [
    ...(kind ? [kind] : []),
    ...(incidents.data?.incidents ?? []).map((incident) => incident.kind),
  ];
  return (
    <>
      <Head
        title="Incidents"
        about="Ductile opens one incident for each cause, and closes it when the cause is gone."
      />
      <div class="filters">
        <Choice route={route} name="status" label="Status" options={states} />
        <Select route={route} name="kind" label="Kind" options={listKinds(shown)} />
      </div>
      <Loaded call={incidents}>
        {({ incidents: rows, next_cursor }) => (
          <>
            {rows.length === 0 ? (
              <Empty command="ductile doctor">
                {status === 'all' ? 'No incident is recorded.' : 'No incident is open.'} The service
                opens one when it finds a lasting problem. To see everything that is wrong:
              </Empty>
            ) : (
              <Table
                label="Incidents"
                rows={rows}
                columns={columns}
                keyOf={({ incident_id }) => incident_id}
                href={({ incident_id }) => link('incidents', { id: incident_id })}
              />
            )}
            <Pager route={route} next={next_cursor} />
          </>
        )}
      </Loaded>
    </>
  );
}

const columns: readonly Column<Incident>[] = [
  {
    title: 'Incident',
    kind: 'grow',
    cell: ({ incident_id, kind, key, message }) => (
      <>
        <a class="name" href={link('incidents', { id: incident_id })}>
          <Text value={kind.replaceAll('_', ' ')} />{' '}
          <span class="soft">
            <Text value={key} />
          </span>
        </a>
        <span class="soft small">
          <Line value={message} />
        </span>
      </>
    ),
  },
  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
  { title: 'Seen', from: 'middle', kind: 'number', cell: ({ count: n }) => count(n) },
  {
    title: 'Last seen',
    from: 'middle',
    kind: 'number',
    cell: ({ last_seen_at }) => <Time at={last_seen_at} />,
  },
  { title: 'Opened', kind: 'number', cell: ({ opened_at }) => <Time at={opened_at} /> },
  {
    title: 'Closed',
    from: 'wide',
    kind: 'number',
    cell: ({ closed_at }) => <Time at={closed_at} />,
  },
];
