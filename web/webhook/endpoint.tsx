import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { bytes } from '../text/time.ts';
import { Named } from '../ui/named.tsx';
import { Card, Empty, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Line, Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Deliveries } from './deliveries.tsx';
import { stateOf } from './state.ts';

type Endpoint = Output<'webhook.endpoints'>['endpoints'][number];

const PREFIX = 'endpoint';

/** Returns the path of an endpoint; undefined for the id of a webhook, which has no slash. */
export function pathIn(id: string): string | undefined {
  return id.startsWith(`${PREFIX}/`) ? id.slice(PREFIX.length) : undefined;
}

/** Endpoints of the configuration; renders nothing if there are none. */
export function Endpoints() {
  const found = useCall('webhook.endpoints', {}, ['']);
  const { endpoints = [] } = found.data ?? {};
  if (endpoints.length === 0) return null;
  return (
    <Card title="Endpoints in the configuration">
      <Table
        label="Endpoints"
        rows={endpoints}
        columns={columns}
        keyOf={({ path }) => path}
        href={hrefOf}
      />
    </Card>
  );
}

function hrefOf({ path }: Endpoint): string {
  return link('webhooks', { id: `${PREFIX}${path}` });
}

const columns: readonly Column<Endpoint>[] = [
  {
    title: 'Endpoint',
    kind: 'grow',
    cell: (row) => <Named href={hrefOf(row)} value={row.path} error={null} />,
  },
  {
    title: 'Target',
    from: 'middle',
    cell: ({ plugin, command }) => <Line value={`${plugin} ${command}`} />,
  },
  {
    title: 'Last outcome',
    cell: ({ last_status }) =>
      last_status !== null && <Status value={stateOf('accepted', last_status)} />,
  },
  {
    title: 'Last triggered',
    kind: 'number',
    cell: ({ last_triggered_at }) => <Time at={last_triggered_at} none="never" />,
  },
];

interface EndpointProps {
  readonly route: Route;
  readonly path: string;
}

export function EndpointPage({ route, path }: EndpointProps) {
  const found = useCall('webhook.endpoints', {}, ['']);
  return (
    <Loaded call={found} title="Endpoint">
      {({ endpoints }) => {
        const row = endpoints.find((endpoint) => endpoint.path === path);
        return (
          <>
            <Head title={<Text value={path} />} about="Endpoint in the configuration." />
            <div class="columns">
              <Deliveries route={route} of={path} />
              <Card title="Details">{row === undefined ? <Gone /> : <About row={row} />}</Card>
            </div>
          </>
        );
      }}
    </Loaded>
  );
}

function Gone() {
  return <Empty>This endpoint is no longer in the configuration.</Empty>;
}

function About({ row }: { readonly row: Endpoint }) {
  return (
    <Facts
      facts={[
        ['Target', <Text value={`${row.plugin} ${row.command}`} />],
        ['URL', <Maybe value={row.url} />],
        ['Signature header', <Text value={row.signature_header} />],
        ['Secret', <Text value={row.secret_ref} />],
        ['Maximum body', bytes(row.max_body_bytes)],
        ['Last triggered', <Time at={row.last_triggered_at} none="never" />],
      ]}
    />
  );
}
