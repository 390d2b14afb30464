import type { RunStory } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { duration } from '../text/time.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { navigate } from '../ui/navigate.ts';
import { Json } from '../ui/json.tsx';
import { Card, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Id, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { Approvals } from './approvals.tsx';
import { Decisions } from './decisions.tsx';
import { Graph } from './graph.tsx';
import { statesOf } from './states.ts';
import { RunStatus, WaitsFor } from './waiting.tsx';
import { Waterfall } from './waterfall.tsx';

export function RunPage({ route }: { readonly route: Route }) {
  const id = route.id ?? '';
  const story = useCall('run.show', { id }, ['job.', 'run.', 'directive.']);
  return (
    <Loaded call={story} title="Run">
      {(run) => <Story run={run} reload={story.reload} />}
    </Loaded>
  );
}

interface StoryProps {
  readonly run: RunStory;
  readonly reload: () => void;
}

function Story({ run, reload }: StoryProps) {
  const isOpen = run.status === 'running' || run.status === 'queued';
  return (
    <>
      <Head
        title={<Text value={run.pipeline} />}
        about={
          <>
            <RunStatus run={run} /> <WaitsFor run={run} isShort />{' '}
            <code class="whole-id">{run.run_id}</code>
          </>
        }
      >
        <Acts run={run} reload={reload} />
      </Head>
      {run.halt_message !== null && (
        <div class="problem">
          <strong>
            <Text value={run.halt_message} />
          </strong>
          <p>
            at step{' '}
            <code>
              <Text value={run.halted_at_step ?? '–'} />
            </code>
            , {(run.halt_reason ?? '').replaceAll('_', ' ')}
          </p>
        </div>
      )}
      <Decisions run={run} reload={reload} />
      {isOpen && <Why kind="run" id={run.run_id} />}
      <Flow run={run} />
      <Card title="Timeline" aside={<span class="soft">{duration(run.duration_ms)}</span>}>
        {!run.complete && (
          <p class="soft pad">
            This run is too large to show completely. The diagram and the timeline contain only the
            first {run.steps.length} steps.
          </p>
        )}
        <Waterfall run={run} />
      </Card>
      <div class="columns">
        <div>
          {run.output !== null && (
            <Card title="Output">
              <Json value={run.output} label="the output" />
            </Card>
          )}
          <Card title="Payload">
            <Json value={run.payload} label="the payload" />
          </Card>
        </div>
        <div>
          <Approvals run={run} />
          <RunFacts run={run} />
        </div>
      </div>
    </>
  );
}

function Flow({ run }: { readonly run: RunStory }) {
  const pipeline = useCall('pipeline.show', { pipeline: run.pipeline });
  if (pipeline.data === undefined) return null;
  const isChanged = pipeline.data.definition_hash !== run.definition_hash;
  return (
    <Card
      title="Steps"
      aside={
        isChanged && (
          <span class="soft">The pipeline has changed since. This is its current version.</span>
        )
      }
    >
      <Graph steps={pipeline.data.steps} states={statesOf(run.steps, run.branches)} />
    </Card>
  );
}

function Acts({ run, reload }: StoryProps) {
  const { run_id: id, pipeline } = run;
  if (run.actions.includes('cancel')) {
    const cancel = (): void =>
      confirmChange({
        title: `Cancel this run of ${pipeline}?`,
        word: 'Cancel the run',
        name: 'run.cancel',
        input: { id },
        done() {
          reload();
          return 'Run cancelled';
        },
      });
    return (
      <button type="button" class="danger" onClick={cancel}>
        Cancel
      </button>
    );
  }
  const enter = (next: string, text: string): string => {
    navigate(link('runs', { id: next }));
    return text;
  };
  const revive = (): void =>
    confirmChange({
      title: `Revive this run of ${pipeline}?`,
      word: 'Revive',
      name: 'run.revive',
      input: { id },
      done: ({ run_id }) => enter(run_id, 'Run revived'),
    });
  const retryFrom = (step: string): void =>
    confirmChange({
      title: `Retry ${step} of this run, and all later steps?`,
      word: 'Retry from here',
      name: 'run.retry-from',
      input: { id, step },
      done: ({ run_id }) => enter(run_id, 'Step retried in a new run'),
    });
  const steps = [...new Set(run.steps.map(({ step }) => step))];
  return (
    <>
      {steps.length > 0 && run.revived_as === null && (
        <div class="field">
          <select
            aria-label="Retry from a step"
            value=""
            onChange={({ currentTarget }) => {
              if (currentTarget.value !== '') retryFrom(currentTarget.value);
              currentTarget.value = '';
            }}
          >
            <option value="">Retry from…</option>
            {steps.map((step) => (
              <option value={step}>{step}</option>
            ))}
          </select>
        </div>
      )}
      {run.actions.includes('revive') && (
        <button type="button" class="main" onClick={revive}>
          Revive
        </button>
      )}
    </>
  );
}

function RunFacts({ run }: { readonly run: RunStory }) {
  const { revived_from, revived_as, source_event_id } = run;
  return (
    <Card title="Details">
      <Facts
        facts={[
          ['Created', <Time at={run.created_at} />],
          ['Started', <Time at={run.started_at} />],
          ['Ended', <Time at={run.completed_at} />],
          run.due_at === null ? undefined : ['Due', <Time at={run.due_at} />],
          [
            'Submitted by',
            <>
              <Text value={run.submitted_by} /> · <Text value={run.actor} />
            </>,
          ],
          run.concurrency_key === null
            ? undefined
            : ['Concurrency key', <Text value={run.concurrency_key} />],
          source_event_id === null
            ? undefined
            : [
                'Caused by',
                <Id id={source_event_id} href={link('signals', { id: source_event_id })} />,
              ],
          revived_from === null
            ? undefined
            : ['Revived from', <Id id={revived_from} href={link('runs', { id: revived_from })} />],
          revived_as === null
            ? undefined
            : ['Revived as', <Id id={revived_as} href={link('runs', { id: revived_as })} />],
          ['Branches', `${run.branches.length}${run.complete ? '' : ' and more'}`],
        ]}
      />
    </Card>
  );
}
