import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { tellBegun } from '../text/begun.ts';
import { bytes, count } from '../text/time.ts';
import { ask } from '../ui/ask.tsx';
import { Choice, Pager } from '../ui/filters.tsx';
import { Card, Empty, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Line, Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { keepHooks } from './kept.ts';
import { stateOf } from './state.ts';
import { targetOf } from './webhooks.tsx';

type Delivery = Output<'webhook.deliveries'>['deliveries'][number];

const verdicts = [
  ['', 'All'],
  ['accepted', 'Accepted'],
  ['skipped', 'Skipped'],
  ['refused', 'Refused'],
  ['failed', 'Failed'],
] as const;

export function WebhookPage({ route }: { readonly route: Route }) {
  const id = route.id ?? '';
  const hook = useCall('webhook.show', { id }, ['']);
  return (
    <Loaded call={hook} title="Webhook">
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
            <button type="button" onClick={() => turn(row, hook.reload)}>
              {row.enabled ? 'Disable' : 'Enable'}
            </button>
            <button type="button" onClick={() => test(id, hook.reload)}>
              Send a test
            </button>
            <button type="button" onClick={() => rotate(row, hook.reload)}>
              Rotate the secret
            </button>
          </Head>
          <Why kind="webhook" id={id} />
          <div class="columns">
            <Deliveries route={route} />
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

function Deliveries({ route }: { readonly route: Route }) {
  const { verdict, cursor } = route.query;
  const deliveries = useCall(
    'webhook.deliveries',
    {
      id: route.id ?? '',
      ...(verdict ? { verdict: verdict as 'accepted' } : {}),
      ...(cursor ? { cursor } : {}),
    },
    [''],
  );
  return (
    <Card
      title="Deliveries"
      aside={<Choice route={route} name="verdict" label="Verdict" options={verdicts} />}
    >
      <Loaded call={deliveries}>
        {({ deliveries: rows, next_cursor }) => (
          <>
            {rows.length === 0 ? (
              <Empty command={`ductile webhook test ${route.id ?? ''}`}>
                Nothing was delivered.
              </Empty>
            ) : (
              <Table
                label="Deliveries"
                rows={rows}
                keyOf={({ delivery_id }) => delivery_id}
                columns={columns(deliveries.reload)}
              />
            )}
            <Pager route={route} next={next_cursor} />
          </>
        )}
      </Loaded>
    </Card>
  );
}

function columns(reload: () => void): readonly Column<Delivery>[] {
  return [
    {
      title: 'Came to',
      kind: 'grow',
      cell: ({ verdict, status, reason, signal_id }) => {
        const state = <Status value={stateOf(verdict, status)} />;
        const note = reason ?? (status?.startsWith('error:') === true ? status : null);
        return (
          <>
            {signal_id === null ? state : <a href={link('signals', { id: signal_id })}>{state}</a>}
            {note !== null && (
              <span class="soft small">
                <Line value={note} />
              </span>
            )}
          </>
        );
      },
    },
    { title: 'From', from: 'middle', cell: ({ source }) => <Text value={source} /> },
    { title: 'Size', from: 'middle', kind: 'number', cell: ({ body_bytes }) => bytes(body_bytes) },
    { title: 'Again', from: 'wide', kind: 'number', cell: ({ duplicates }) => count(duplicates) },
    { title: 'Received', kind: 'number', cell: ({ received_at }) => <Time at={received_at} /> },
    {
      title: '',
      kind: 'act',
      cell: ({ delivery_id, signal_id }) =>
        signal_id !== null && (
          <button type="button" onClick={() => replay(delivery_id, reload)}>
            Replay
          </button>
        ),
    },
  ];
}

function replay(deliveryId: string, reload: () => void): void {
  ask({
    title: 'Let this delivery be handled once more?',
    word: 'Replay',
    name: 'webhook.replay',
    input: { delivery_id: deliveryId },
    done(begun) {
      reload();
      return tellBegun(begun);
    },
  });
}

function test(id: string, reload: () => void): void {
  ask({
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

function turn({ id, enabled }: Output<'webhook.show'>, reload: () => void): void {
  ask({
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
  ask({
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
    keep: ({ secret }) => keepHooks([{ id, path, secret }]),
  });
}
