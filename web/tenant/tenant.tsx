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
              <Card title="What it may use">
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
      title="What was done about it"
      aside={<a href={link('directives', { query: { target: `tenant:${slug}` } })}>All</a>}
    >
      <Loaded call={changes}>
        {({ directives }) =>
          directives.length === 0 ? (
            <Empty>Nothing.</Empty>
          ) : (
            <DirectiveTable directives={directives} label="What was done about it" isShort />
          )
        }
      </Loaded>
    </Card>
  );
}

function TenantFacts({ row }: { readonly row: Tenant }) {
  return (
    <Card title="Facts">
      <Facts
        facts={[
          ['Ledger', row.awake ? 'open here' : 'closed until there is work'],
          ['Work due', <Time at={row.due_at} none="nothing" />],
          ['Schema', <Text value={String(row.schema_version ?? 'not made yet')} />],
          ['Made by', <Text value={row.created_by} />],
          ['Made', <Time at={row.created_at} />],
          ['Changed', <Time at={row.updated_at} />],
        ]}
      />
      <div class="pad">
        <p class="soft small">Its own jobs are seen by who signs in with a token of it:</p>
        <Command text={`ductile tenant token ${row.slug} ann --role admin`} />
      </div>
    </Card>
  );
}

const abouts: Readonly<Record<keyof Tenant['limits'], string>> = {
  workers: 'jobs that it may run at once; empty for no limit',
  queue_length: 'jobs that it may have queued',
  signals_per_minute: 'signals that it may report in a minute',
  storage_bytes: 'bytes that its ledger may take',
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
    title: `Change what ${slug} may use?`,
    word: 'Set limits',
    name: 'tenant.limit',
    input: { slug, ...Object.fromEntries(entries) },
    done() {
      reload();
      return 'The limits are in force.';
    },
  });
}
