import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { navigate } from '../ui/navigate.ts';
import { Named } from '../ui/named.tsx';
import { Card, Empty, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Table, type Column } from '../ui/table.tsx';
import { Line, Maybe, Text } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { SchemaForm } from './schema-form.tsx';

type Plugin = Output<'plugin.list'>['plugins'][number];

export function PluginsPage() {
  const plugins = useCall('plugin.list', {}, ['directive.']);
  return (
    <>
      <Head title="Plugins" about="Programs that jobs run." />
      <Loaded call={plugins}>
        {({ plugins: rows, problems = [], dormant = {}, disabled = [] }) => (
          <>
            {problems.length > 0 && (
              <Card title="Failed to load" tone="alarm">
                <ul class="plain-list">
                  {problems.map(({ plugin, message, hint }) => (
                    <li>
                      <b>
                        <Maybe value={plugin} />
                      </b>{' '}
                      <Text value={message} />{' '}
                      {hint !== null && (
                        <span class="soft">
                          <Text value={hint} />
                        </span>
                      )}
                    </li>
                  ))}
                </ul>
              </Card>
            )}
            {rows.length === 0 ? (
              <Empty command="ductile plugin create hello">
                A plugin is a program that jobs run. There is no plugin yet. Create one:
              </Empty>
            ) : (
              <Table
                label="Plugins"
                rows={rows}
                columns={columns}
                keyOf={({ name }) => name}
                href={({ name }) => link('plugins', { id: name })}
              />
            )}
            <InactivePlugins dormant={dormant} disabled={disabled} />
          </>
        )}
      </Loaded>
    </>
  );
}

interface InactivePluginsProps {
  readonly dormant: Readonly<Record<string, readonly string[]>>;
  readonly disabled: readonly string[];
}

/** Installed plugins that are disabled or lack configuration. */
function InactivePlugins({ dormant, disabled }: InactivePluginsProps) {
  const waiting = Object.entries(dormant);
  if (waiting.length + disabled.length === 0) return null;
  return (
    <p class="soft pad">
      {waiting.map(([name, keys], at) => (
        <>
          {at > 0 && ', '}
          <Text value={name} /> needs <Text value={keys.join(', ')} />
        </>
      ))}
      {disabled.length > 0 && (
        <>
          {' '}
          Disabled: <Text value={disabled.join(', ')} />
        </>
      )}
    </p>
  );
}

const columns: readonly Column<Plugin>[] = [
  {
    title: 'Plugin',
    kind: 'grow',
    cell: ({ name, description, reason }) => (
      <Named href={link('plugins', { id: name })} value={name} error={reason}>
        <span class="soft small">
          <Line value={description} />
        </span>
      </Named>
    ),
  },
  {
    title: 'State',
    cell: ({ enabled = true, health }) =>
      enabled ? (
        <Status value={health ?? 'ok'} says={health ?? 'ready'} />
      ) : (
        <Status value="disabled" />
      ),
  },
  {
    title: 'Commands',
    from: 'middle',
    cell: ({ commands }) => <Line value={commands.join(', ')} />,
  },
  { title: 'Version', from: 'middle', cell: ({ version }) => <Text value={version} /> },
  { title: 'Parallelism', from: 'wide', kind: 'number', cell: ({ parallelism }) => parallelism },
];

/** Page of a plugin, with a form for each of its commands. */
export function PluginPage({ route }: { readonly route: Route }) {
  const name = route.id ?? '';
  const plugin = useCall('plugin.inspect', { plugin: name });
  const all = useCall('plugin.list', {}, ['directive.']);
  const own = all.data?.plugins.find((row) => row.name === name);
  return (
    <Loaded call={plugin} title="Plugin">
      {({ version, description, uses, protocol, parallelism, commands }) => (
        <>
          <Head
            title={<Text value={name} />}
            about={description === '' ? undefined : <Maybe value={description} />}
          >
            <a class="button" href={link('jobs', { query: { plugin: name } })}>
              Show jobs
            </a>
            {own?.enabled !== undefined && (
              <button
                type="button"
                onClick={() => togglePlugin(name, own.enabled === true, all.reload)}
              >
                {own.enabled ? 'Disable' : 'Enable'}
              </button>
            )}
          </Head>
          <div class="columns">
            <div>
              {commands.map((command) => (
                <Card
                  key={command.name}
                  title={<Text value={command.name} />}
                  aside={
                    <span class="soft">{command.type === 'read' ? 'read-only' : 'writes'}</span>
                  }
                >
                  {command.description !== null && (
                    <p class="soft pad-top">
                      <Text value={command.description} />
                    </p>
                  )}
                  <SchemaForm
                    schema={command.input_schema}
                    word={`Run ${command.name}`}
                    submit={(payload) => run(name, command.name, payload)}
                  />
                </Card>
              ))}
            </div>
            <Card title="Details">
              <Facts
                facts={[
                  ['Version', <Text value={version} />],
                  uses === null ? undefined : ['Uses', <Text value={uses} />],
                  ['Protocol', protocol],
                  ['Parallelism', parallelism],
                  own === undefined ? undefined : ['Health', <Maybe value={own.health} />],
                ]}
              />
            </Card>
          </div>
        </>
      )}
    </Loaded>
  );
}

function run(plugin: string, command: string, payload: Record<string, unknown>): void {
  confirmChange({
    title: `Run ${plugin} ${command}?`,
    word: 'Run',
    name: 'plugin.run',
    input: { plugin, command, payload, async: true },
    done({ job_id }) {
      navigate(link('jobs', { id: job_id }));
      return 'Job queued';
    },
  });
}

function togglePlugin(plugin: string, isOn: boolean, reload: () => void): void {
  confirmChange({
    title: isOn ? `Disable ${plugin}?` : `Enable ${plugin}?`,
    word: isOn ? 'Disable' : 'Enable',
    name: isOn ? 'plugin.disable' : 'plugin.enable',
    input: { plugin },
    done() {
      reload();
      return isOn ? 'Plugin disabled' : 'Plugin enabled';
    },
  });
}
