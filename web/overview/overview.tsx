import { useEffect, useState } from 'preact/hooks';
import { onEvents } from '../api/live.ts';
import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { count, duration, percent } from '../text/time.ts';
import { Choice } from '../ui/filters.tsx';
import { Card, Empty, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table } from '../ui/table.tsx';
import { Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { JobTable } from '../job/jobs.tsx';
import { AttentionCard } from './attention.tsx';
import { RateChart } from './rate-chart.tsx';
import { Share, Tile } from './tile.tsx';

const windows = [
  ['', '1 hour'],
  ['24h', '1 day'],
  ['7d', '7 days'],
] as const;

const FAILED_ROWS = 6;

export function OverviewPage({ route }: { readonly route: Route }) {
  const window = route.query['window'] ?? '1h';
  const summary = useCall('analytics.summary', { window }, ['job.']);
  const queue = useCall('analytics.queue', {}, ['job.']);
  const failed = useCall(
    'job.list',
    { status: ['failed', 'dead', 'timed_out'], limit: FAILED_ROWS },
    ['job.'],
  );
  return (
    <>
      <Head title="Overview" about={<ServiceLine />}>
        <Choice route={route} name="window" label="Time range" options={windows} />
      </Head>
      <Tiles summary={summary.data} queue={queue.data} />
      <AttentionCard />
      <div class="columns">
        <div>
          <Card
            title="Recent failures"
            aside={
              <a href={link('jobs', { query: { status: 'failed,dead,timed_out' } })}>
                All failures
              </a>
            }
          >
            <Loaded call={failed}>
              {({ jobs }) =>
                jobs.length === 0 ? (
                  <Empty>No job has failed. Failed jobs are listed here.</Empty>
                ) : (
                  <JobTable jobs={jobs} label="Recent failures" isShort />
                )
              }
            </Loaded>
          </Card>
          <Card title="Commands">
            <Loaded call={summary}>{({ commands }) => <Commands rows={commands} />}</Loaded>
          </Card>
        </div>
        <Card
          title="Queue"
          aside={<a href={link('jobs', { query: { status: 'queued' } })}>Queued jobs</a>}
        >
          <Loaded call={queue}>{({ lanes }) => <Lanes lanes={lanes} />}</Loaded>
        </Card>
      </div>
    </>
  );
}

function ServiceLine() {
  const status = useCall('system.status', {});
  if (status.data === undefined) return null;
  const { state, detail, processes, ledger, uptime_seconds: up } = status.data;
  return (
    <>
      <Status value={state === 'running' ? 'ok' : state} says={state} />
      {detail !== null && <Text value={detail} />}
      <span>
        {processes.length === 1 ? '1 process' : `${processes.length} processes`} · {ledger} · up{' '}
        {duration(up * 1000)}
      </span>
    </>
  );
}

interface TilesProps {
  readonly summary: Output<'analytics.summary'> | undefined;
  readonly queue: Output<'analytics.queue'> | undefined;
}

const bad = ['failed', 'timed_out', 'crashed', 'dead', 'settle_error'];

function Tiles({ summary, queue }: TilesProps) {
  const stats = new Map(Object.entries(summary?.stats ?? {}));
  // A job that was released before its process started isn't an attempt.
  stats.delete('released');
  const attempts = [...stats.values()].reduce((sum, n) => sum + n, 0);
  const failures = bad.reduce((sum, status) => sum + (stats.get(status) ?? 0), 0);
  const more = summary?.truncated === true ? '+' : '';
  return (
    <div class="tiles">
      <Tile
        title="Attempts"
        value={summary === undefined ? '…' : `${count(attempts)}${more}`}
        about="finished; last minute below"
      >
        <Ends />
      </Tile>
      <Tile
        title="Failures"
        value={summary === undefined ? '…' : count(failures)}
        tone={failures > 0 ? 'bad' : 'good'}
        about={`${percent(failures, attempts)} of attempts`}
      >
        <Share part={failures} whole={attempts} />
      </Tile>
      <Tile
        title="Queue wait"
        value={summary === undefined ? '…' : duration(meanWait(summary))}
        about={
          (queue?.oldest_ready_at ?? null) === null ? (
            'the queue is empty'
          ) : (
            <>
              oldest job became ready <Time at={queue?.oldest_ready_at} />
            </>
          )
        }
      >
        {summary !== undefined && <Slowest summary={summary} />}
      </Tile>
      <Tile
        title="Now"
        value={queue === undefined ? '…' : count(queue.running)}
        tone={queue !== undefined && queue.running > 0 ? 'busy' : 'calm'}
        about={
          queue === undefined
            ? ''
            : `running · ${count(queue.ready)} ready · ${count(queue.delayed)} delayed`
        }
      >
        <Share part={queue?.running ?? 0} whole={queue?.depth ?? 0} />
      </Tile>
    </div>
  );
}

/** Names the command whose jobs wait longest. */
function Slowest({ summary: { commands } }: { readonly summary: Output<'analytics.summary'> }) {
  const [most] = commands.toSorted((a, b) => (b.mean_queue_ms ?? 0) - (a.mean_queue_ms ?? 0));
  if (most === undefined) return null;
  return (
    <p class="soft tile-more">
      longest: <Text value={`${most.plugin} ${most.command}`} /> {duration(most.mean_queue_ms)}
    </p>
  );
}

function meanWait({ commands }: Output<'analytics.summary'>): number | null {
  const attempts = commands.reduce((sum, command) => sum + command.attempts, 0);
  if (attempts === 0) return null;
  return (
    commands.reduce((sum, { attempts: n, mean_queue_ms: ms }) => sum + n * (ms ?? 0), 0) / attempts
  );
}

const SECONDS = 60;

/** Chart of the attempts that ended in each of the last seconds. */
function Ends() {
  const [ends, setEnds] = useState<readonly SecondCounts[]>(() =>
    Array.from({ length: SECONDS }, () => noEnds),
  );
  useEffect(() => {
    let good = 0;
    let failed = 0;
    const stop = onEvents((types) => {
      for (const [type, n] of types) {
        if (type === 'job.succeeded') good += n;
        else if (bad.includes(type.slice('job.'.length))) failed += n;
      }
    });
    const timer = setInterval(() => {
      const next = { good, failed };
      [good, failed] = [0, 0];
      setEnds((before) => [...before.slice(1), next]);
    }, 1000);
    return () => {
      stop();
      clearInterval(timer);
    };
  }, []);
  return <RateChart seconds={ends} />;
}

interface SecondCounts {
  readonly good: number;
  readonly failed: number;
}

const noEnds: SecondCounts = { good: 0, failed: 0 };

function Lanes({ lanes }: { readonly lanes: Output<'analytics.queue'>['lanes'] }) {
  if (lanes.length === 0)
    return <Empty command="ductile plugin run echo">The queue is empty. Start a job:</Empty>;
  return (
    <Table
      label="Queue by plugin"
      rows={lanes}
      keyOf={({ plugin }) => plugin}
      href={({ plugin }) => link('jobs', { query: { plugin, status: 'queued' } })}
      columns={[
        {
          title: 'Plugin',
          kind: 'grow',
          cell: ({ plugin }) => (
            <span class="name">
              <Text value={plugin} />
            </span>
          ),
        },
        { title: 'Ready', kind: 'number', cell: ({ ready }) => count(ready) },
        { title: 'Delayed', kind: 'number', cell: ({ delayed }) => count(delayed) },
        { title: 'Running', kind: 'number', cell: ({ running }) => count(running) },
      ]}
    />
  );
}

function Commands({ rows }: { readonly rows: Output<'analytics.summary'>['commands'] }) {
  if (rows.length === 0) {
    return (
      <Empty command="ductile plugin run echo">
        No attempt ended in this time range. Start a job:
      </Empty>
    );
  }
  return (
    <Table
      label="Durations by command"
      rows={rows.toSorted((a, b) => b.attempts - a.attempts)}
      keyOf={({ plugin, command }) => JSON.stringify([plugin, command])}
      href={({ plugin, command }) => link('jobs', { query: { plugin, command } })}
      columns={[
        {
          title: 'Command',
          kind: 'grow',
          cell: ({ plugin, command }) => (
            <a class="name" href={link('jobs', { query: { plugin, command } })}>
              <Text value={plugin} />{' '}
              <span class="soft">
                <Text value={command} />
              </span>
            </a>
          ),
        },
        { title: 'Attempts', kind: 'number', cell: ({ attempts }) => count(attempts) },
        {
          title: 'Failed',
          kind: 'number',
          cell: ({ failed }) =>
            failed === 0 ? (
              <span class="none">–</span>
            ) : (
              <span class="bad-text">{count(failed)}</span>
            ),
        },
        { title: 'Mean', kind: 'number', cell: ({ mean_run_ms }) => duration(mean_run_ms) },
        {
          title: 'Longest',
          kind: 'number',
          from: 'middle',
          cell: ({ max_run_ms }) => duration(max_run_ms),
        },
        {
          title: 'Mean wait',
          kind: 'number',
          from: 'wide',
          cell: ({ mean_queue_ms }) => duration(mean_queue_ms),
        },
      ]}
    />
  );
}
