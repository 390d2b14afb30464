import type { Output } from '../api/types.ts';
import { link } from '../route.ts';
import { count } from '../text/time.ts';
import { Named } from '../ui/named.tsx';
import { Empty, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Line, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Endpoints } from './endpoint.tsx';
import { stateOf } from './state.ts';

type Webhook = Output<'webhook.list'>['webhooks'][number];

export function WebhooksPage() {
  const result = useCall('webhook.list', {}, ['']);
  return (
    <>
      <Head
        title="Webhooks"
        about="HTTP endpoints that start work when another system calls them."
      />
      <Loaded call={result}>
        {({ webhooks }) =>
          webhooks.length === 0 ? (
            <Empty command="ductile webhook create deploys --title Deploys --plugin echo">
              A webhook starts work when another system calls it. There is no webhook yet. Create
              one:
            </Empty>
          ) : (
            <Table
              label="Webhooks"
              rows={webhooks}
              columns={columns}
              keyOf={({ id }) => id}
              href={({ id }) => link('webhooks', { id })}
            />
          )
        }
      </Loaded>
      <Endpoints />
    </>
  );
}

const columns: readonly Column<Webhook>[] = [
  {
    title: 'Webhook',
    kind: 'grow',
    cell: ({ id, title, last_error }) => (
      <Named href={link('webhooks', { id })} value={title} apart={id} error={last_error} />
    ),
  },
  { title: 'Status', cell: ({ enabled }) => <Status value={enabled ? 'enabled' : 'disabled'} /> },
  { title: 'Target', from: 'middle', cell: (webhook) => <Line value={targetOf(webhook)} /> },
  { title: 'Authentication', from: 'wide', cell: ({ auth_mode }) => <Text value={auth_mode} /> },
  {
    title: 'Accepted',
    from: 'middle',
    kind: 'number',
    cell: ({ trigger_count }) => count(trigger_count),
  },
  {
    title: 'Last outcome',
    from: 'middle',
    cell: ({ last_status }) =>
      last_status !== null && <Status value={stateOf('accepted', last_status)} />,
  },
  {
    title: 'Last triggered',
    kind: 'number',
    cell: ({ last_triggered_at }) => <Time at={last_triggered_at} none="never" />,
  },
];

export function targetOf({ plugin, command, pipeline, signal, mode }: Webhook): string {
  if (plugin !== null) return `${plugin} ${command ?? ''}`;
  if (pipeline !== null) return `pipeline ${pipeline}`;
  return signal === null ? `agent, ${mode ?? ''}` : `signal ${signal}`;
}
