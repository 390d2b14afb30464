import type { Directive } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { Choice, Pager, Typed } from '../ui/filters.tsx';
import { Named } from '../ui/named.tsx';
import { Empty, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Id, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';

const states = [
  ['', 'All'],
  ['awaiting', 'To approve'],
  ['completed', 'Completed'],
  ['failed', 'Failed'],
  ['cancelled', 'Cancelled'],
] as const;

/** Page of all directives. */
export function DirectivesPage({ route }: { readonly route: Route }) {
  const { status, actor, target, type, cursor } = route.query;
  const directives = useCall(
    'directive.list',
    {
      ...(status === 'awaiting' ? { awaiting_approval: true } : {}),
      ...(status && status !== 'awaiting' ? { status: [status as Directive['status']] } : {}),
      ...(type ? { type } : {}),
      ...(actor ? { actor } : {}),
      ...(target ? { target } : {}),
      ...(cursor ? { cursor } : {}),
    },
    cursor === undefined ? ['directive.'] : [],
  );
  return (
    <>
      <Head title="Directives" about="Requested changes, with their actor and status." />
      <div class="filters">
        <Choice route={route} name="status" label="Status" options={states} />
        <Typed route={route} name="type" label="Type" />
        <Typed route={route} name="actor" label="Actor" />
        <Typed route={route} name="target" label="Target" />
      </div>
      <Loaded call={directives}>
        {({ directives: rows, next_cursor }) => (
          <>
            {rows.length === 0 ? (
              <Empty>
                {status === 'awaiting' ? 'Nothing waits for approval.' : 'No directives found.'}
              </Empty>
            ) : (
              <DirectiveTable directives={rows} label="Directives" />
            )}
            <Pager route={route} next={next_cursor} />
          </>
        )}
      </Loaded>
    </>
  );
}

interface DirectiveTableProps {
  readonly directives: readonly Directive[];
  readonly label: string;
  /** Shows fewer columns, for tables beside other content. */
  readonly isShort?: boolean;
}

export function DirectiveTable({ directives, label, isShort = false }: DirectiveTableProps) {
  return (
    <Table
      label={label}
      rows={directives}
      columns={isShort ? columns.filter(({ title }) => title !== 'Id') : columns}
      keyOf={({ directive_id }) => directive_id}
      href={({ directive_id }) => link('directives', { id: directive_id })}
    />
  );
}

const columns: readonly Column<Directive>[] = [
  {
    title: 'Directive',
    kind: 'grow',
    cell: ({ directive_id, type, target, error_message: error }) => (
      <Named
        href={link('directives', { id: directive_id })}
        value={type}
        apart={target}
        error={error}
      />
    ),
  },
  {
    title: 'Status',
    cell: ({ status, awaiting_approval }) => (
      <Status
        value={awaiting_approval ? 'awaiting_approval' : status}
        says={awaiting_approval ? 'to approve' : status}
      />
    ),
  },
  { title: 'Id', from: 'wide', cell: ({ directive_id }) => <Id id={directive_id} /> },
  { title: 'Actor', from: 'middle', cell: ({ actor }) => <Text value={actor} /> },
  { title: 'Requested', kind: 'number', cell: ({ requested_at }) => <Time at={requested_at} /> },
];
