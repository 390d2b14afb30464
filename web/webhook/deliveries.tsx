import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { formatReplayResult } from '../text/replay-result.ts';
import { bytes, count } from '../text/time.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { Choice, Pager } from '../ui/filters.tsx';
import { Card, Empty, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Line, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { stateOf } from './state.ts';

type Delivery = Output<'webhook.deliveries'>['deliveries'][number];

const verdicts = [
  ['', 'All'],
  ['accepted', 'Accepted'],
  ['skipped', 'Skipped'],
  ['refused', 'Refused'],
  ['failed', 'Failed'],
] as const;

interface DeliveriesProps {
  readonly route: Route;
  /** Id of a webhook, or path of an endpoint. */
  readonly of: string;
  readonly tryIt?: string;
}

export function Deliveries({ route, of, tryIt }: DeliveriesProps) {
  const { verdict, cursor } = route.query;
  const deliveries = useCall(
    'webhook.deliveries',
    {
      id: of,
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
              <Empty {...(tryIt === undefined ? {} : { command: tryIt })}>
                {tryIt === undefined ? 'No deliveries.' : 'No deliveries. Send a test:'}
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
      title: 'Outcome',
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
    { title: 'Source', from: 'middle', cell: ({ source }) => <Text value={source} /> },
    { title: 'Size', from: 'middle', kind: 'number', cell: ({ body_bytes }) => bytes(body_bytes) },
    {
      title: 'Duplicates',
      from: 'wide',
      kind: 'number',
      cell: ({ duplicates }) => count(duplicates),
    },
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
  confirmChange({
    title: 'Replay this delivery?',
    word: 'Replay',
    name: 'webhook.replay',
    input: { delivery_id: deliveryId },
    done(result) {
      reload();
      return formatReplayResult(result);
    },
  });
}
