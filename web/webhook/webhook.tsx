import type { Output } from '../api/types.ts';
import type { Route } from '../route.ts';
import { count } from '../text/time.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { Card, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { Deliveries } from './deliveries.tsx';
import { EndpointPage, pathIn } from './endpoint.tsx';
import { showSecrets } from './one-time-secrets.ts';
import { targetOf } from './webhooks.tsx';

interface PageProps {
  readonly route: Route;
}

export function WebhookPage({ route }: PageProps) {
  const path = pathIn(route.id ?? '');
  return path === undefined ? (
    <WebhookDetails route={route} />
  ) : (
    <EndpointPage route={route} path={path} />
  );
}

function WebhookDetails({ route }: PageProps) {
  const id = route.id ?? '';
  const webhook = useCall('webhook.show', { id }, ['']);
  return (
    <Loaded call={webhook} title="Webhook">
      {(row) => (
        <>
          <Head
            title={<Text value={row.title} />}
            about={
              <>
                <Status value={row.enabled ? 'enabled' : 'disabled'} />
                <code>
                  <Text value={row.path} />
                </code>
              </>
            }
          >
            <button type="button" onClick={() => toggleWebhook(row, webhook.reload)}>
              {row.enabled ? 'Disable' : 'Enable'}
            </button>
            <button type="button" onClick={() => test(id, webhook.reload)}>
              Send a test
            </button>
            <button type="button" onClick={() => rotate(row, webhook.reload)}>
              Rotate the secret
            </button>
          </Head>
          <Why kind="webhook" id={id} />
          <div class="columns">
            <Deliveries route={route} of={id} tryIt={`ductile webhook test ${id}`} />
            <Card title="Facts">
              <Facts
                facts={[
                  ['About', <Maybe value={row.description} />],
                  ['Starts', <Text value={targetOf(row)} />],
                  ['Proof', <Text value={row.auth_mode} />],
                  ['Secret', row.has_own_secret ? 'its own' : 'the global token'],
                  ['Taken', count(row.trigger_count)],
                  ['Last', <Time at={row.last_triggered_at} none="never" />],
                  ['Last error', <Maybe value={row.last_error} />],
                  [
                    'Made by',
                    <>
                      <Text value={row.created_by} /> <Time at={row.created_at} />
                    </>,
                  ],
                ]}
              />
            </Card>
          </div>
        </>
      )}
    </Loaded>
  );
}

function test(id: string, reload: () => void): void {
  confirmChange({
    title: `Deliver something to ${id}, as its sender would?`,
    word: 'Send a test',
    name: 'webhook.test',
    input: { id },
    done({ status }) {
      reload();
      return `The sender was answered ${status}.`;
    },
  });
}

function toggleWebhook({ id, enabled }: Output<'webhook.show'>, reload: () => void): void {
  confirmChange({
    title: `${enabled ? 'Disable' : 'Enable'} ${id}?`,
    word: enabled ? 'Disable' : 'Enable',
    name: 'webhook.edit',
    input: { id, enabled: !enabled },
    done() {
      reload();
      return enabled ? 'It takes nothing any more.' : 'It takes deliveries again.';
    },
  });
}

function rotate({ id, path }: Output<'webhook.show'>, reload: () => void): void {
  confirmChange({
    title: `Make another secret for ${id}?`,
    word: 'Rotate the secret',
    name: 'webhook.rotate',
    input: { id },
    choice: {
      label: 'The secret of now',
      options: [
        ['is not good any more', {}],
        ['stays good for an hour', { keep_old: '1h' }],
        ['stays good for a day', { keep_old: '1d' }],
        ['stays good for a week', { keep_old: '7d' }],
      ],
    },
    done() {
      reload();
      return 'It has another secret.';
    },
    showOnce: ({ secret }) => showSecrets([{ id, path, secret }]),
  });
}
