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
            <Card title="Details">
              <Facts
                facts={[
                  ['Description', <Maybe value={row.description} />],
                  ['Target', <Text value={targetOf(row)} />],
                  ['Authentication', <Text value={row.auth_mode} />],
                  ['Secret', row.has_own_secret ? 'own secret' : 'global token'],
                  ['Accepted', count(row.trigger_count)],
                  ['Last triggered', <Time at={row.last_triggered_at} none="never" />],
                  ['Last error', <Maybe value={row.last_error} />],
                  [
                    'Created by',
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
    title: `Send a test delivery to ${id}?`,
    word: 'Send a test',
    name: 'webhook.test',
    input: { id },
    done({ status }) {
      reload();
      return `Test sent: status ${status}`;
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
      return enabled ? 'Webhook disabled' : 'Webhook enabled';
    },
  });
}

function rotate({ id, path }: Output<'webhook.show'>, reload: () => void): void {
  confirmChange({
    title: `Rotate the secret of ${id}?`,
    word: 'Rotate the secret',
    name: 'webhook.rotate',
    input: { id },
    choice: {
      label: 'Current secret',
      options: [
        ['revoke now', {}],
        ['keep valid for 1 hour', { keep_old: '1h' }],
        ['keep valid for 1 day', { keep_old: '1d' }],
        ['keep valid for 7 days', { keep_old: '7d' }],
      ],
    },
    done() {
      reload();
      return 'Secret rotated';
    },
    showOnce: ({ secret }) => showSecrets([{ id, path, secret }]),
  });
}
