import { useEffect, useState } from 'preact/hooks';
import { follow } from '../api/stream.ts';
import type { Event, Signal } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { Choice, Pager, Typed } from '../ui/filters.tsx';
import { Empty, Head, Loaded } from '../ui/parts.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Id, Line, Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { pageOf, summaryOf } from './event.ts';

const ROWS = 50;

const views = [
  ['', 'Signals'],
  ['stream', 'Live events'],
] as const;

export function SignalsPage({ route }: { readonly route: Route }) {
  const isStream = route.query['view'] === 'stream';
  return (
    <>
      <Head
        title="Signals"
        about={
          isStream
            ? 'Signals and other events while this page is open, newest first.'
            : 'Recorded events, newest first.'
        }
      />
      <div class="filters">
        <Choice route={route} name="view" label="View" options={views} />
        <Typed route={route} name="type" label="Type, such as order.paid" />
        {!isStream && <Typed route={route} name="source" label="Source" />}
        {!isStream && <Typed route={route} name="subject" label="Subject" />}
      </div>
      {isStream ? (
        <Stream key={route.query['type']} type={route.query['type'] ?? ''} />
      ) : (
        <List route={route} />
      )}
    </>
  );
}

function List({ route }: { readonly route: Route }) {
  const { type, source, subject, correlation_id, cursor } = route.query;
  const filters = { type, source, subject, correlation_id, cursor };
  const filled = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
  const signals = useCall(
    'signal.list',
    { limit: ROWS, ...filled },
    cursor === undefined ? [''] : [],
  );
  return (
    <Loaded call={signals}>
      {({ signals: rows, next_cursor }) => (
        <>
          {rows.length === 0 ? (
            <Empty command="ductile signal emit order.paid --source shop">
              No signals found. Emit one:
            </Empty>
          ) : (
            <SignalTable signals={rows} label="Signals" />
          )}
          <Pager route={route} next={next_cursor} />
        </>
      )}
    </Loaded>
  );
}

interface SignalTableProps {
  readonly signals: readonly Signal[];
  readonly label: string;
}

export function SignalTable({ signals, label }: SignalTableProps) {
  return (
    <Table
      label={label}
      rows={signals}
      columns={columns}
      keyOf={({ signal_id }) => signal_id}
      href={({ signal_id }) => link('signals', { id: signal_id })}
    />
  );
}

const columns: readonly Column<Signal>[] = [
  {
    title: 'Type',
    kind: 'grow',
    cell: ({ signal_id, type, data }) => (
      <>
        <a class="name" href={link('signals', { id: signal_id })}>
          <Text value={type} />
        </a>
        <span class="soft small">
          <Line value={JSON.stringify(data)} />
        </span>
      </>
    ),
  },
  { title: 'Source', from: 'middle', cell: ({ source }) => <Text value={source} /> },
  { title: 'Subject', from: 'wide', cell: ({ subject_id }) => <Maybe value={subject_id} /> },
  { title: 'Id', from: 'middle', cell: ({ signal_id }) => <Id id={signal_id} /> },
  { title: 'Occurred', kind: 'number', cell: ({ occurred_at }) => <Time at={occurred_at} /> },
];

const EVENTS_MAX = 200;

/** Live list of the latest events. */
function Stream({ type }: { readonly type: string }) {
  const [events, setEvents] = useState<readonly Event[]>([]);
  const [isPaused, setPaused] = useState(false);
  useEffect(() => {
    if (isPaused) return undefined;
    let waiting: Event[] = [];
    let timer: number | undefined;
    const stop = follow(type === '' ? {} : { type }, {
      event(event) {
        waiting.push(event);
        // Render at most five times per second.
        timer ??= window.setTimeout(() => {
          const next = waiting.toReversed();
          waiting = [];
          timer = undefined;
          setEvents((before) => [...next, ...before].slice(0, EVENTS_MAX));
        }, 200);
      },
      link: () => undefined,
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [type, isPaused]);
  return (
    <>
      <div class="filters">
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </button>
      </div>
      {events.length === 0 ? (
        <Empty>{isPaused ? 'Paused.' : 'Waiting for events…'}</Empty>
      ) : (
        <Table
          label="Events"
          rows={events}
          keyOf={(event) => `${event.type} ${event.event_id}`}
          href={pageOf}
          columns={eventColumns}
        />
      )}
    </>
  );
}

const eventColumns: readonly Column<Event>[] = [
  {
    title: 'Type',
    kind: 'grow',
    cell: (event) => (
      <>
        <a class="name" href={pageOf(event)}>
          <Text value={event.type} />
        </a>
        <span class="soft small">
          <Line value={summaryOf(event.data)} />
        </span>
      </>
    ),
  },
  { title: 'Source', from: 'middle', cell: ({ source }) => <Text value={source} /> },
  {
    title: 'Job',
    cell: ({ job_id }) => (
      <Id id={job_id} {...(job_id === null ? {} : { href: link('jobs', { id: job_id }) })} />
    ),
  },
  { title: 'Occurred', kind: 'number', cell: ({ occurred_at }) => <Time at={occurred_at} /> },
];
