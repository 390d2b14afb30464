import { useState } from 'preact/hooks';
import type { Run } from '../api/types.ts';
import { SchemaForm } from '../plugin/schema-form.tsx';
import { link, type Route } from '../route.ts';
import { duration } from '../text/time.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { Choice, Pager, Select } from '../ui/filters.tsx';
import { navigate } from '../ui/navigate.ts';
import { Named } from '../ui/named.tsx';
import { Card, Empty, Head, Loaded } from '../ui/parts.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Id, Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { RunStatus, WaitsFor } from './waiting.tsx';

const ROWS = 50;

/** Run of any list; only `run.list` contains what it waits for. */
type Row = Omit<Run, 'asks' | 'waiting_for'> & Partial<Pick<Run, 'asks' | 'waiting_for'>>;

const states = [
  ['', 'All'],
  ['queued', 'Queued'],
  ['running', 'In progress'],
  ['awaiting', 'To approve'],
  ['succeeded', 'Succeeded'],
  ['halted', 'Halted'],
  ['cancelled', 'Cancelled'],
] as const;

export function RunsPage({ route }: { readonly route: Route }) {
  const { status, pipeline, cursor } = route.query;
  const [isStarting, setStarting] = useState(false);
  const pipelines = useCall('pipeline.list', {});
  const runs = useCall(
    'run.list',
    {
      limit: ROWS,
      ...(status === 'awaiting' ? { awaiting_approval: true } : {}),
      ...(status && status !== 'awaiting' ? { status: [status as Run['status']] } : {}),
      ...(pipeline ? { pipeline } : {}),
      ...(cursor ? { cursor } : {}),
    },
    cursor === undefined ? ['job.', 'run.'] : [],
  );
  const names = pipelines.data?.pipelines.map(({ name }) => [name, name] as const) ?? [];
  return (
    <>
      <Head
        title="Runs"
        about="Runs of pipelines, newest first. Choose a pipeline to start a run."
      />
      <div class="filters">
        <Choice route={route} name="status" label="Status" options={states} />
        <Select
          route={route}
          name="pipeline"
          label="Pipeline"
          options={[['', 'Any pipeline'], ...names]}
        />
        {pipeline ? (
          <button type="button" aria-expanded={isStarting} onClick={() => setStarting(!isStarting)}>
            Start a run
          </button>
        ) : null}
      </div>
      {pipeline && isStarting ? <Start key={pipeline} pipeline={pipeline} /> : null}
      <Loaded call={runs}>
        {({ runs: rows, next_cursor }) => (
          <>
            {rows.length === 0 ? (
              <NoRun isAwaiting={status === 'awaiting'} />
            ) : (
              <RunTable runs={rows} label="Runs" />
            )}
            <Pager route={route} next={next_cursor} />
          </>
        )}
      </Loaded>
    </>
  );
}

function NoRun({ isAwaiting }: { readonly isAwaiting: boolean }) {
  if (isAwaiting) {
    return (
      <Empty command="ductile run list --awaiting-approval">
        Nothing waits for approval. Runs with a step that needs approval are listed here.
      </Empty>
    );
  }
  return <Empty command="ductile pipeline run <name>">No runs found. Start one:</Empty>;
}

/** Form for a new run. A pipeline has no schema for its payload, so the form takes JSON. */
function Start({ pipeline }: { readonly pipeline: string }) {
  return (
    <Card title={<Text value={`Start ${pipeline}`} />}>
      <SchemaForm schema={undefined} word="Start" submit={(payload) => start(pipeline, payload)} />
    </Card>
  );
}

function start(pipeline: string, payload: Record<string, unknown>): void {
  confirmChange({
    title: `Start a run of ${pipeline}?`,
    word: 'Start the run',
    name: 'pipeline.run',
    input: { pipeline, payload, async: true },
    done({ run_id }) {
      navigate(link('runs', { id: run_id }));
      return 'Run started';
    },
  });
}

export function RunTable({
  runs,
  label,
}: {
  readonly runs: readonly Row[];
  readonly label: string;
}) {
  return (
    <Table
      label={label}
      rows={runs}
      columns={columns}
      keyOf={({ run_id }) => run_id}
      href={({ run_id }) => link('runs', { id: run_id })}
    />
  );
}

const columns: readonly Column<Row>[] = [
  {
    title: 'Pipeline',
    kind: 'grow',
    cell: (run) => (
      <Named href={link('runs', { id: run.run_id })} value={run.pipeline} error={run.halt_message}>
        <span class="soft small">
          <WaitsFor run={run} />
        </span>
      </Named>
    ),
  },
  {
    title: 'Status',
    cell: (run) => <RunStatus run={run} />,
  },
  { title: 'Id', from: 'middle', cell: ({ run_id }) => <Id id={run_id} /> },
  {
    title: 'Step',
    from: 'wide',
    cell: ({ halted_at_step, waiting_for = null }) => (
      <Maybe value={waiting_for?.step ?? halted_at_step} />
    ),
  },
  { title: 'Origin', from: 'wide', cell: ({ submitted_by }) => <Text value={submitted_by} /> },
  {
    title: 'Duration',
    from: 'middle',
    kind: 'number',
    cell: ({ duration_ms }) => duration(duration_ms),
  },
  { title: 'Created', kind: 'number', cell: ({ created_at }) => <Time at={created_at} /> },
];
