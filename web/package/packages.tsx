import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { Card, Empty, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Line, Maybe, Text } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { SchemaForm } from '../plugin/schema-form.tsx';
import { showSecrets } from '../webhook/one-time-secrets.ts';

type Package = Output<'package.list'>['packages'][number];

export function PackagesPage() {
  const packages = useCall('package.list', {}, ['package.', 'directive.']);
  return (
    <>
      <Head title="Packages" about="Plugins, schedules and pipelines that you install as a unit." />
      <Loaded call={packages}>
        {({ packages: rows, problems }) => (
          <>
            {problems.length > 0 && (
              <Card title="Invalid packages" tone="alarm">
                <ul class="plain-list">
                  {problems.map(({ place, message }) => (
                    <li>
                      <Text value={message} />{' '}
                      <span class="soft">
                        <Text value={place} />
                      </span>
                    </li>
                  ))}
                </ul>
              </Card>
            )}
            {rows.length === 0 ? (
              <Empty command="ductile config set package_roots.0=./packages --apply">
                No packages found. Set the directory that contains them:
              </Empty>
            ) : (
              <Table
                label="Packages"
                rows={rows}
                columns={columns}
                keyOf={({ slug }) => slug}
                href={({ slug }) => link('packages', { id: slug })}
              />
            )}
          </>
        )}
      </Loaded>
    </>
  );
}

const columns: readonly Column<Package>[] = [
  {
    title: 'Package',
    kind: 'grow',
    cell: ({ slug, title }) => (
      <>
        <a class="name" href={link('packages', { id: slug })}>
          <Text value={title} />
        </a>
        <span class="soft small">
          <Line value={slug} />
        </span>
      </>
    ),
  },
  {
    title: 'State',
    cell: ({ status }) =>
      status === null ? <span class="none">not installed</span> : <Status value={status} />,
  },
  { title: 'Category', from: 'middle', cell: ({ category }) => <Text value={category} /> },
  { title: 'Installed', from: 'middle', cell: ({ installed }) => <Maybe value={installed} /> },
  { title: 'Newest', cell: ({ version }) => <Text value={version} /> },
];

export function PackagePage({ route }: { readonly route: Route }) {
  const slug = route.id ?? '';
  const shown = useCall('package.show', { package: slug }, ['package.', 'directive.']);
  return (
    <Loaded call={shown} title="Package">
      {(item) => {
        const isIn = item.installed !== null && item.status !== 'uninstalled';
        return (
          <>
            <Head
              title={<Text value={item.title} />}
              about={
                <>
                  {isIn ? <Status value={item.status ?? 'installed'} /> : 'not installed'}
                  <Text value={slug} />
                </>
              }
            >
              {isIn && <Switches item={item} reload={shown.reload} />}
            </Head>
            <div class="columns">
              <div>
                <Card title="Description">
                  <p class="pad">
                    <Text value={item.description} lines />
                  </p>
                </Card>
                {!isIn && (
                  <Card title="Install">
                    <SchemaForm
                      schema={item.config_schema}
                      word="Install"
                      submit={(config) => install(slug, config, shown.reload)}
                    />
                  </Card>
                )}
                <Card title="Contents">
                  <ul class="plain-list">
                    {item.provides.map(({ kind, name }) => (
                      <li>
                        <span class="soft">
                          <Text value={kind} />
                        </span>{' '}
                        <Text value={name} />
                      </li>
                    ))}
                  </ul>
                </Card>
              </div>
              <PackageFacts item={item} />
            </div>
          </>
        );
      }}
    </Loaded>
  );
}

function PackageFacts({ item }: { readonly item: Output<'package.show'> }) {
  return (
    <Card title="Details">
      <Facts
        facts={[
          ['Newest', <Text value={item.version} />],
          ['Versions', <Text value={item.versions.join(', ')} />],
          ['Installed', <Maybe value={item.installed} />],
          ['Category', <Text value={item.category} />],
          [
            'Required plugins',
            <Text value={item.requires.map(({ plugin }) => plugin).join(', ') || 'none'} />,
          ],
          [
            'Hash',
            <code class="id wrap">
              <Text value={item.hash} />
            </code>,
          ],
        ]}
      />
    </Card>
  );
}

interface SwitchesProps {
  readonly item: Output<'package.show'>;
  readonly reload: () => void;
}

const verbs = {
  enable: 'Package enabled',
  disable: 'Package disabled',
  upgrade: 'Package upgraded',
  uninstall: 'Package uninstalled',
} as const;

function Switches({ item: { slug, status, installed, version }, reload }: SwitchesProps) {
  const change = (verb: keyof typeof verbs): void =>
    confirmChange({
      title: `${verb[0]?.toUpperCase()}${verb.slice(1)} ${slug}?`,
      word: `${verb[0]?.toUpperCase()}${verb.slice(1)}`,
      name: `package.${verb}`,
      input: { package: slug },
      done() {
        reload();
        return verbs[verb];
      },
      showOnce: ({ webhooks = [] }) =>
        showSecrets(webhooks.filter(({ secret }) => secret !== null)),
    });
  return (
    <>
      {installed !== version && (
        <button type="button" class="main" onClick={() => change('upgrade')}>
          Upgrade to <Text value={version} />
        </button>
      )}
      <button type="button" onClick={() => change(status === 'disabled' ? 'enable' : 'disable')}>
        {status === 'disabled' ? 'Enable' : 'Disable'}
      </button>
      <button type="button" class="danger" onClick={() => change('uninstall')}>
        Uninstall
      </button>
    </>
  );
}

function install(slug: string, config: Record<string, unknown>, reload: () => void): void {
  confirmChange({
    title: `Install ${slug}?`,
    word: 'Install',
    name: 'package.install',
    input: { package: slug, config },
    done() {
      reload();
      return 'Package installed';
    },
    showOnce: ({ webhooks = [] }) => showSecrets(webhooks),
  });
}
