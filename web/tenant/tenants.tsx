import type { Tenant } from '../api/types.ts';
import { link } from '../route.ts';
import { bytes, count } from '../text/time.ts';
import { Named } from '../ui/named.tsx';
import { Empty, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { toggleTenant } from './toggle.ts';

export function TenantsPage() {
  const tenants = useCall('tenant.list', {}, ['tenant.', 'directive.']);
  return (
    <>
      <Head title="Tenants" about="Each tenant has its own database." />
      <Loaded call={tenants}>
        {({ tenants: rows }) =>
          rows.length === 0 ? (
            <Empty command="ductile tenant create acme">
              A tenant has its own database, jobs and tokens. There is no tenant yet. Create one:
            </Empty>
          ) : (
            <Table
              label="Tenants"
              rows={rows}
              columns={columns(tenants.reload)}
              keyOf={({ slug }) => slug}
              href={({ slug }) => link('tenants', { id: slug })}
            />
          )
        }
      </Loaded>
    </>
  );
}

function columns(reload: () => void): readonly Column<Tenant>[] {
  return [
    {
      title: 'Tenant',
      kind: 'grow',
      cell: ({ slug, title, schema_error }) => (
        <Named
          href={link('tenants', { id: slug })}
          value={title}
          apart={slug}
          error={schema_error}
        />
      ),
    },
    { title: 'Status', cell: ({ status }) => <Status value={status} /> },
    { title: 'Database', from: 'middle', cell: ({ awake }) => (awake ? 'open' : '–') },
    { title: 'Limits', from: 'middle', cell: ({ limits }) => <Text value={limitsText(limits)} /> },
    {
      title: 'Next work',
      from: 'wide',
      kind: 'number',
      cell: ({ due_at }) => <Time at={due_at} />,
    },
    { title: 'Created', kind: 'number', cell: ({ created_at }) => <Time at={created_at} /> },
    {
      title: '',
      kind: 'act',
      cell: (tenant) => (
        <button type="button" onClick={() => toggleTenant(tenant, reload)}>
          {tenant.status === 'suspended' ? 'Resume' : 'Suspend'}
        </button>
      ),
    },
  ];
}

function limitsText({
  workers,
  queue_length,
  signals_per_minute,
  storage_bytes,
}: Tenant['limits']): string {
  const parts = [
    workers === null ? '' : `${workers} workers`,
    queue_length === null ? '' : `${count(queue_length)} queued`,
    signals_per_minute === null ? '' : `${count(signals_per_minute)} signals/min`,
    storage_bytes === null ? '' : bytes(storage_bytes),
  ].filter((part) => part !== '');
  return parts.length === 0 ? 'none' : parts.join(', ');
}
