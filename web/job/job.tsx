import type { JobStory } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { navigate } from '../ui/navigate.ts';
import { Json } from '../ui/json.tsx';
import { Card, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status, toneOf } from '../ui/status.tsx';
import { Id, Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { Attempts } from './attempts.tsx';
import { JobTree } from './tree.tsx';

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
        <Acts job={job} reload={reload} />
      </Head>
      <Retried job={job} />
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

function Acts({ job, reload }: StoryProps) {
  const { job_id: id, plugin, command, run_id: runId, actions } = job;
  if (actions.includes('cancel')) {
    const cancel = (): void =>
      confirmChange({
        title: `Cancel this job of ${plugin} ${command}?`,
        word: 'Cancel the job',
        name: 'job.cancel',
        input: { id },
        done({ status }) {
          reload();
          return status === 'cancelled' ? 'Job cancelled' : 'Cancellation requested';
        },
      });
    return (
      <button type="button" class="danger" onClick={cancel}>
        Cancel
      </button>
    );
  }
  if (actions.includes('revive') && runId !== null) {
    const revive = (): void =>
      confirmChange({
        title: 'Revive the run of this step?',
        word: 'Revive run',
        name: 'run.revive',
        input: { id: runId },
        done({ run_id }) {
          navigate(link('runs', { id: run_id }));
          return 'Run revived';
        },
      });
    return (
      <button type="button" class="main" onClick={revive}>
        Revive run
      </button>
    );
  }
  if (!actions.includes('retry')) return null;
  const retry = (): void =>
    confirmChange({
      title: `Retry this job of ${plugin} ${command}?`,
      word: 'Retry',
      name: 'job.retry',
      input: { id },
      done({ job_id }) {
        navigate(link('jobs', { id: job_id }));
        return 'Job retried';
      },
    });
  return (
    <button type="button" class={toneOf(job.status) === 'bad' ? 'main' : ''} onClick={retry}>
      Retry
    </button>
  );
}

/** Note that a job was retried, so that it needs no attention. */
function Retried({ job: { retried_as: id } }: { readonly job: JobStory }) {
  if (id === null) return null;
  return (
    <p class="note">
      This job was retried as <Id id={id} href={link('jobs', { id })} />.
    </p>
  );
}

function JobFacts({ job }: { readonly job: JobStory }) {
  const { run_id, retry_of, parent_job_id } = job;
  return (
    <Card title="Details">
      <Facts
        facts={[
          ['Created', <Time at={job.created_at} />],
          ['Started', <Time at={job.started_at} />],
          ['Ended', <Time at={job.completed_at} />],
          job.next_retry_at === null
            ? undefined
            : ['Next attempt', <Time at={job.next_retry_at} />],
          [
            'Submitted by',
            <>
              <Text value={job.submitted_by} /> · <Text value={job.actor} />
            </>,
          ],
          ['Attempt', attemptText(job)],
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
            : ['Parent job', <Id id={parent_job_id} href={link('jobs', { id: parent_job_id })} />],
          retry_of === null
            ? undefined
            : ['Retry of', <Id id={retry_of} href={link('jobs', { id: retry_of })} />],
          job.dedupe_key === null ? undefined : ['Dedupe key', <Text value={job.dedupe_key} />],
          [
            'Idempotency key',
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

/** Formats the number of the attempt. It can exceed the limit, which only failures count toward. */
function attemptText({ attempt, max_attempts: max, crash_count: crashes }: JobStory): string {
  const limit = `at most ${max} ${max === 1 ? 'failure' : 'failures'}`;
  const crashed = crashes === 0 ? '' : `, ${crashes} ${crashes === 1 ? 'crash' : 'crashes'}`;
  return `${attempt} (${limit}${crashed})`;
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
