import type { Tenant } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { SchemaForm } from '../plugin/schema-form.tsx';
import { confirmChange } from '../ui/confirm.tsx';
import { DirectiveTable } from '../directive/directives.tsx';
import { Card, Command, Empty, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { toggleTenant } from './toggle.ts';

/** Page of a tenant: its state, its limits, and its changes. */
export function TenantPage({ route }: { readonly route: Route }) {
  const slug = route.id ?? '';
  const tenant = useCall('tenant.show', { slug }, ['tenant.', 'directive.']);
  return (
    <Loaded call={tenant} title="Tenant">
      {(row) => (
        <>
          <Head
            title={<Text value={row.title} />}
            about={
              <>
                <Status value={row.status} />
                <Text value={row.slug} />
              </>
            }
          >
            <button type="button" onClick={() => toggleTenant(row, tenant.reload)}>
              {row.status === 'suspended' ? 'Resume' : 'Suspend'}
            </button>
          </Head>
          {row.schema_error !== null && (
            <p class="problem">
              <Text value={row.schema_error} lines />
            </p>
          )}
          <div class="columns">
            <div>
              <Changes slug={row.slug} />
              <Card title="Limits">
                <SchemaForm
                  key={row.updated_at}
                  schema={schemaOf(row.limits)}
                  word="Set limits"
                  submit={(values) => setLimits(row, values, tenant.reload)}
                />
              </Card>
            </div>
            <TenantFacts row={row} />
          </div>
        </>
      )}
    </Loaded>
  );
}

function Changes({ slug }: { readonly slug: string }) {
  const changes = useCall('directive.list', { target: `tenant:${slug}`, limit: 10 }, [
    'directive.',
  ]);
  return (
    <Card
      title="Changes"
      aside={<a href={link('directives', { query: { target: `tenant:${slug}` } })}>All changes</a>}
    >
      <Loaded call={changes}>
        {({ directives }) =>
          directives.length === 0 ? (
            <Empty>No changes are recorded.</Empty>
          ) : (
            <DirectiveTable directives={directives} label="Changes" isShort />
          )
        }
      </Loaded>
    </Card>
  );
}

function TenantFacts({ row }: { readonly row: Tenant }) {
  return (
    <Card title="Details">
      <Facts
        facts={[
          ['Database', row.awake ? 'open in this process' : 'closed until there is work'],
          ['Next work', <Time at={row.due_at} none="none" />],
          ['Schema', <Text value={String(row.schema_version ?? 'not created yet')} />],
          ['Created by', <Text value={row.created_by} />],
          ['Created', <Time at={row.created_at} />],
          ['Changed', <Time at={row.updated_at} />],
        ]}
      />
      <div class="pad">
        <p class="soft small">
          To see the tenant's jobs, sign in with a token of the tenant. Create one:
        </p>
        <Command text={`ductile tenant token ${row.slug} ann --role admin`} />
      </div>
    </Card>
  );
}

const abouts: Readonly<Record<keyof Tenant['limits'], string>> = {
  workers: 'maximum number of running jobs; empty for no limit',
  queue_length: 'maximum number of queued jobs; empty for no limit',
  signals_per_minute: 'maximum number of signals per minute; empty for no limit',
  storage_bytes: 'maximum size of the database in bytes; empty for no limit',
};

type Limit = keyof Tenant['limits'];

const limitNames = Object.keys(abouts) as Limit[];

function schemaOf(limits: Tenant['limits']): Readonly<Record<string, unknown>> {
  const fields = limitNames.map((name) => {
    const now = limits[name];
    const filled = now === null ? {} : { default: now };
    return [name, { type: 'integer', description: abouts[name], ...filled }] as const;
  });
  return { type: 'object', properties: Object.fromEntries(fields) };
}

function setLimits(
  { slug }: Tenant,
  values: Readonly<Record<string, unknown>>,
  reload: () => void,
): void {
  const entries = limitNames.map((name) => {
    const value = values[name];
    return [name, typeof value === 'number' ? value : null] as const;
  });
  confirmChange({
    title: `Set the limits of ${slug}?`,
    word: 'Set limits',
    name: 'tenant.limit',
    input: { slug, ...Object.fromEntries(entries) },
    done() {
      reload();
      return 'Limits set';
    },
  });
}
