import type { Output } from '../api/types.ts';
import type { Route } from '../route.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { Json } from '../ui/json.tsx';
import { Card, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';

type Story = Output<'directive.show'>;

export function DirectivePage({ route }: { readonly route: Route }) {
  const story = useCall('directive.show', { id: route.id ?? '' }, ['directive.']);
  return (
    <Loaded call={story} title="Directive">
      {(directive) => (
        <>
          <Head
            title={
              <>
                <Text value={directive.type} />{' '}
                <span class="soft">
                  <Text value={directive.target} />
                </span>
              </>
            }
            about={
              <>
                <Status
                  value={directive.awaiting_approval ? 'awaiting_approval' : directive.status}
                />
                <code class="whole-id">{directive.directive_id}</code>
              </>
            }
          >
            <Acts directive={directive} reload={story.reload} />
          </Head>
          {directive.status === 'requested' && <Why kind="directive" id={directive.directive_id} />}
          <div class="columns">
            <Content directive={directive} />
            <DirectiveFacts directive={directive} />
          </div>
        </>
      )}
    </Loaded>
  );
}

function Content({ directive }: { readonly directive: Story }) {
  return (
    <div>
      <Card title="Plan">
        <ul class="plain-list">
          {directive.plan.map((line) => (
            <li>
              <Text value={line} />
            </li>
          ))}
        </ul>
      </Card>
      <Card title="Parameters">
        <Json value={directive.params} label="the parameters" />
      </Card>
      {directive.completed_at !== null && (
        <Card title="Result">
          {directive.error_message !== null && (
            <p class="error pad">
              <Text value={directive.error_message} lines />
            </p>
          )}
          <Json value={directive.result} label="the result" />
        </Card>
      )}
    </div>
  );
}

function DirectiveFacts({ directive }: { readonly directive: Story }) {
  return (
    <Card title="Details">
      <Facts
        facts={[
          [
            'Requested by',
            <>
              <Text value={directive.actor} /> <Maybe value={directive.actor_role} />
            </>,
          ],
          ['Requested', <Time at={directive.requested_at} />],
          ['Started', <Time at={directive.started_at} />],
          ['Ended', <Time at={directive.completed_at} />],
          directive.run_at === null || directive.run_at === directive.requested_at
            ? undefined
            : ['Not before', <Time at={directive.run_at} />],
          directive.approved_by === null
            ? undefined
            : [
                'Approved by',
                <>
                  <Text value={directive.approved_by} /> <Time at={directive.approved_at} />
                </>,
              ],
          directive.cancelled_by === null
            ? undefined
            : ['Cancelled by', <Text value={directive.cancelled_by} />],
          [
            'Scope',
            <code>
              <Text value={directive.scope} />
            </code>,
          ],
          [
            'Idempotency key',
            <code class="id wrap">
              <Text value={directive.idempotency_key} />
            </code>,
          ],
        ]}
      />
    </Card>
  );
}

interface ActsProps {
  readonly directive: Story;
  readonly reload: () => void;
}

function Acts({
  directive: { directive_id: id, type, status, awaiting_approval },
  reload,
}: ActsProps) {
  if (status !== 'requested') return null;
  const decide = (isYes: boolean): void =>
    confirmChange({
      title: isYes ? `Approve this ${type}?` : `Cancel this ${type}?`,
      word: isYes ? 'Approve' : 'Cancel the directive',
      name: isYes ? 'directive.approve' : 'directive.cancel',
      input: { id },
      done() {
        reload();
        return isYes ? 'Directive approved' : 'Directive cancelled';
      },
    });
  return (
    <>
      <button type="button" class="danger" onClick={() => decide(false)}>
        Cancel
      </button>
      {awaiting_approval && (
        <button type="button" class="main" onClick={() => decide(true)}>
          Approve
        </button>
      )}
    </>
  );
}
