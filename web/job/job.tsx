import { useState } from 'preact/hooks';
import type { Attempt, JobStory } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { bytes, duration } from '../text/time.ts';
import { ask } from '../ui/ask.tsx';
import { go } from '../ui/go.ts';
import { Json } from '../ui/json.tsx';
import { Card, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status, toneOf } from '../ui/status.tsx';
import { Id, Maybe, Printed, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { JobTree } from './tree.tsx';
import { PhaseBar } from './phase-bar.tsx';

const open = new Set(['queued', 'running']);

export function JobPage({ route }: { readonly route: Route }) {
  const id = route.id ?? '';
  const story = useCall('job.inspect', { id }, ['job.']);
  return (
    <Loaded call={story} title="Job">
      {(job) => <Story job={job} reload={story.reload} />}
    </Loaded>
  );
}

interface StoryProps {
  readonly job: JobStory;
  readonly reload: () => void;
}

function Story({ job, reload }: StoryProps) {
  const isOpen = open.has(job.status);
  return (
    <>
      <Head
        title={
          <>
            <Text value={job.plugin} />{' '}
            <span class="soft">
              <Text value={job.command} />
            </span>
          </>
        }
        about={
          <>
            <Status value={job.status} /> <code class="whole-id">{job.job_id}</code>
          </>
        }
      >
        <Acts job={job} isOpen={isOpen} reload={reload} />
      </Head>
      {isOpen && <Why kind="job" id={job.job_id} />}
      <div class="columns">
        <div>
          <Attempts attempts={job.attempts} />
          {job.result !== null && (
            <Card title="Result">
              <Json value={job.result} label="the result" />
            </Card>
          )}
          <Card title="Payload">
            <Json value={job.payload} label="the payload" />
          </Card>
        </div>
        <div>
          <JobFacts job={job} />
          <Cause job={job} />
          <JobTree id={job.job_id} stamp={`${job.status} ${job.children.length}`} />
        </div>
      </div>
    </>
  );
}

function Acts({ job, isOpen, reload }: StoryProps & { readonly isOpen: boolean }) {
  const { job_id: id, plugin, command } = job;
  if (isOpen) {
    const cancel = (): void =>
      ask({
        title: `Cancel this job of ${plugin} ${command}?`,
        word: 'Cancel the job',
        name: 'job.cancel',
        input: { id },
        done({ status }) {
          reload();
          return status === 'cancelled' ? 'The job is cancelled.' : 'The job was told to stop.';
        },
      });
    return (
      <button type="button" class="danger" onClick={cancel}>
        Cancel
      </button>
    );
  }
  const retry = (): void =>
    ask({
      title: `Do the work of this job of ${plugin} ${command} again?`,
      word: 'Retry',
      name: 'job.retry',
      input: { id },
      done({ job_id }) {
        go(link('jobs', { id: job_id }));
        return 'A new job does the work again.';
      },
    });
  return (
    <button type="button" class={toneOf(job.status) === 'bad' ? 'main' : ''} onClick={retry}>
      Retry
    </button>
  );
}

const SHOWN = 10;

function Attempts({ attempts }: { readonly attempts: readonly Attempt[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? attempts : attempts.slice(-SHOWN);
  return (
    <Card title={attempts.length === 1 ? '1 attempt' : `${attempts.length} attempts`}>
      {attempts.length === 0 && <p class="soft pad">No attempt has ended yet.</p>}
      <ol class="attempts">
        {shown.toReversed().map((attempt) => (
          <li key={attempt.log_id}>
            <AttemptItem attempt={attempt} />
          </li>
        ))}
      </ol>
      {shown.length < attempts.length && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          Show all {attempts.length} attempts
        </button>
      )}
    </Card>
  );
}

function AttemptItem({ attempt }: { readonly attempt: Attempt }) {
  const { exit_code, signal, pid, stderr, last_error, cause, cpu_ms, memory_peak_bytes } = attempt;
  return (
    <>
      <div class="attempt-head">
        <b>#{attempt.attempt}</b>
        <Status value={attempt.status} />
        {cause !== attempt.status && (
          <span class="soft">
            <Text value={cause.replaceAll('_', ' ')} />
          </span>
        )}
        <span class="soft">
          {exit_code !== null && `exit ${exit_code} · `}
          {signal !== null && `${signal} · `}
          {pid !== null && `pid ${pid} · `}
          {cpu_ms !== null && `${duration(cpu_ms)} CPU · `}
          {memory_peak_bytes !== null && `${bytes(memory_peak_bytes)} memory · `}
          <Time at={attempt.completed_at} />
        </span>
      </div>
      <PhaseBar attempt={attempt} />
      {last_error !== null && (
        <p class="error">
          <Text value={last_error} lines />
        </p>
      )}
      {stderr !== null && stderr !== '' && (
        <details open={attempt.status !== 'succeeded'}>
          <summary>What it wrote to stderr{attempt.stderr_truncated ? ', cut off' : ''}</summary>
          <Printed value={stderr} label="stderr" />
        </details>
      )}
    </>
  );
}

function JobFacts({ job }: { readonly job: JobStory }) {
  const { run_id, retry_of, parent_job_id } = job;
  return (
    <Card title="Facts">
      <Facts
        facts={[
          ['Created', <Time at={job.created_at} />],
          ['Started', <Time at={job.started_at} />],
          ['Ended', <Time at={job.completed_at} />],
          job.next_retry_at === null ? undefined : ['Next try', <Time at={job.next_retry_at} />],
          [
            'By',
            <>
              <Text value={job.submitted_by} /> · <Text value={job.actor} />
            </>,
          ],
          ['Tries', triesText(job)],
          job.reason === null ? undefined : ['Reason', <Text value={job.reason} />],
          run_id === null
            ? undefined
            : [
                'Run',
                <>
                  <Id id={run_id} href={link('runs', { id: run_id })} />{' '}
                  <Maybe value={job.step_id} />
                </>,
              ],
          parent_job_id === null
            ? undefined
            : ['Follows', <Id id={parent_job_id} href={link('jobs', { id: parent_job_id })} />],
          retry_of === null
            ? undefined
            : ['Retry of', <Id id={retry_of} href={link('jobs', { id: retry_of })} />],
          job.dedupe_key === null ? undefined : ['Dedupe key', <Text value={job.dedupe_key} />],
          [
            'Idempotency',
            <code class="id wrap">
              <Text value={job.idempotency_key} />
            </code>,
          ],
          job.claimed_by === null ? undefined : ['Process', <Id id={job.claimed_by} />],
        ]}
      />
    </Card>
  );
}

function triesText({ attempt, max_attempts, crash_count }: JobStory): string {
  const crashes = crash_count > 0 ? `, ${crash_count} crashes` : '';
  return `attempt ${attempt}, ${max_attempts} at most${crashes}`;
}

function Cause({ job: { cause, signals } }: { readonly job: JobStory }) {
  if (cause === null && signals.length === 0) return null;
  return (
    <Card title="Signals">
      <ul class="plain-list">
        {cause !== null && (
          <li>
            <span class="soft">caused by</span>{' '}
            <SignalLink id={cause.signal_id} type={cause.type} />
          </li>
        )}
        {signals.map(({ signal_id, type }) => (
          <li key={signal_id}>
            <span class="soft">emitted</span> <SignalLink id={signal_id} type={type} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function SignalLink({ id, type }: { readonly id: string; readonly type: string }) {
  return (
    <a href={link('signals', { id })}>
      <Text value={type} />
    </a>
  );
}
