import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { formatReplayResult } from '../text/replay-result.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { Json } from '../ui/json.tsx';
import { Card, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Id, Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { JobTable } from '../job/jobs.tsx';
import { RunTable } from '../run/runs.tsx';
import { SignalTable } from './signals.tsx';

export function SignalPage({ route }: { readonly route: Route }) {
  const id = route.id ?? '';
  const story = useCall('signal.show', { id }, ['job.', 'run.']);
  return (
    <Loaded call={story} title="Signal">
      {(signal) => (
        <>
          <Head
            title={<Text value={signal.type} />}
            about={<code class="whole-id">{signal.signal_id}</code>}
          >
            <button
              type="button"
              onClick={() => replay(signal.signal_id, signal.type, story.reload)}
            >
              Replay
            </button>
          </Head>
          {signal.jobs.length + signal.runs.length === 0 && (
            <Why kind="signal" id={signal.signal_id} />
          )}
          <div class="columns">
            <Effects signal={signal} />
            <About signal={signal} />
          </div>
        </>
      )}
    </Loaded>
  );
}

interface PartProps {
  readonly signal: Output<'signal.show'>;
}

function Effects({ signal }: PartProps) {
  return (
    <div>
      <Card title="Data">
        <Json value={signal.data} label="the data" />
      </Card>
      {signal.jobs.length > 0 && (
        <Card title="Jobs caused by this signal">
          <JobTable jobs={signal.jobs} label="Jobs caused by this signal" isShort />
        </Card>
      )}
      {signal.runs.length > 0 && (
        <Card title="Runs started by this signal">
          <RunTable runs={signal.runs} label="Runs started by this signal" />
        </Card>
      )}
      {signal.signals.length > 0 && (
        <Card title="Signals caused by this signal">
          <SignalTable signals={signal.signals} label="Signals caused by this signal" />
        </Card>
      )}
    </div>
  );
}

function About({ signal }: PartProps) {
  return (
    <div>
      <Card title="Details">
        <Facts
          facts={[
            ['Source', <Text value={signal.source} />],
            [
              'Subject',
              <>
                <Maybe value={signal.subject_type} /> <Maybe value={signal.subject_id} />
              </>,
            ],
            ['Occurred', <Time at={signal.occurred_at} />],
            ['Recorded', <Time at={signal.inserted_at} />],
            signal.job_id === null
              ? undefined
              : [
                  'Emitted by',
                  <Id id={signal.job_id} href={link('jobs', { id: signal.job_id })} />,
                ],
            signal.causation_id === null
              ? undefined
              : [
                  'Caused by',
                  <Id
                    id={signal.causation_id}
                    href={link('signals', { id: signal.causation_id })}
                  />,
                ],
            [
              'Correlation',
              <Id
                id={signal.correlation_id}
                href={link('signals', { query: { correlation_id: signal.correlation_id } })}
              />,
            ],
            signal.dedupe_key === null
              ? undefined
              : ['Dedupe key', <Text value={signal.dedupe_key} />],
          ]}
        />
      </Card>
      <Card title="Metadata">
        <Json value={signal.metadata} label="the metadata" />
      </Card>
    </div>
  );
}

function replay(id: string, type: string, reload: () => void): void {
  confirmChange({
    title: `Replay this ${type}?`,
    word: 'Replay',
    name: 'signal.replay',
    input: { id },
    done(result) {
      reload();
      return formatReplayResult(result);
    },
  });
}
