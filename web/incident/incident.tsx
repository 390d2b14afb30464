import type { ComponentChildren } from 'preact';
import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { count } from '../text/time.ts';
import { Json } from '../ui/json.tsx';
import { Card, Command, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Marked, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { useAttention } from '../finding/attention.ts';
import { Remedies } from '../finding/finding.tsx';
import { JobTable } from '../job/jobs.tsx';
import { SignalTable } from '../signal/signals.tsx';

type Story = Output<'incident.show'>;

const FAILED_ROWS = 6;

export function IncidentPage({ route }: { readonly route: Route }) {
  const story = useCall('incident.show', { id: route.id ?? '' }, ['incident.', 'breaker.']);
  return (
    <Loaded call={story} title="Incident">
      {(incident) => (
        <>
          <Head
            title={
              <>
                <Text value={incident.kind.replaceAll('_', ' ')} />{' '}
                <span class="soft">
                  <Text value={incident.key} />
                </span>
              </>
            }
            about={
              <>
                <Status value={incident.status} />
                <code class="whole-id">{incident.incident_id}</code>
              </>
            }
          >
            <Acts incident={incident} reload={story.reload} />
          </Head>
          <p class={incident.status === 'open' ? 'problem' : 'note'}>
            <Text value={incident.message} lines />
          </p>
          {incident.kind === 'schedule_overdue' && <Why kind="schedule" id={incident.key} />}
          <div class="columns">
            <Evidence incident={incident} />
            <IncidentFacts incident={incident} />
          </div>
        </>
      )}
    </Loaded>
  );
}

interface ActsProps {
  readonly incident: Story;
  readonly reload: () => void;
}

/** Remedies of the finding that belongs to an open incident. */
function Acts({ incident: { incident_id, status }, reload }: ActsProps): ComponentChildren {
  const attention = useAttention();
  const finding = attention.findings.find((item) => item.incident?.incident_id === incident_id);
  if (status !== 'open' || finding === undefined) return null;
  const reloadAll = (): void => {
    reload();
    attention.reload();
  };
  return <Remedies finding={finding} reload={reloadAll} />;
}

/** The evidence and the commands of an open incident. */
function Resolution({ incident: { incident_id, status } }: { readonly incident: Story }) {
  const finding = useAttention().findings.find(
    (item) => item.incident?.incident_id === incident_id,
  );
  if (status !== 'open' || finding === undefined) return null;
  const { evidence, fix, commands } = finding;
  return (
    <Card title="How to resolve it">
      <div class="pad resolution">
        {evidence !== null && (
          <p class="soft">
            <Text value={evidence} lines />
          </p>
        )}
        {fix !== '' && (
          <p>
            <Marked value={fix} />
          </p>
        )}
        {commands.map((command) => (
          <Command text={command} />
        ))}
      </div>
    </Card>
  );
}

/** Kinds whose key is `<plugin>/<command>`. */
const commandKinds = new Set(['failure_streak', 'breaker_open', 'poison_job']);

function Evidence({ incident }: { readonly incident: Story }) {
  const { kind, key, detail, signals } = incident;
  const target = commandKinds.has(kind) ? splitKey(key) : undefined;
  return (
    <div>
      <Resolution incident={incident} />
      {target !== undefined && <Failed plugin={target[0]} command={target[1]} />}
      <Card title="Data">
        <Json value={detail} label="the data" />
      </Card>
      {signals.length > 0 && (
        <Card title="Signals">
          <SignalTable signals={signals} label="Signals of the incident" />
        </Card>
      )}
    </div>
  );
}

/** Splits a key such as `<plugin>/<command>`. */
function splitKey(key: string): readonly [plugin: string, command: string] | undefined {
  const at = key.indexOf('/');
  return at < 1 ? undefined : [key.slice(0, at), key.slice(at + 1)];
}

function Failed({ plugin, command }: { readonly plugin: string; readonly command: string }) {
  const failed = useCall(
    'job.list',
    { plugin, command, status: ['failed', 'dead', 'timed_out'], limit: FAILED_ROWS },
    ['job.'],
  );
  return (
    <Card
      title="Recent failures"
      aside={<a href={link('jobs', { query: { plugin, command } })}>All jobs of this command</a>}
    >
      <Loaded call={failed}>
        {({ jobs }) => <JobTable jobs={jobs} label="Recent failures" isShort />}
      </Loaded>
    </Card>
  );
}

function IncidentFacts({ incident }: { readonly incident: Story }) {
  return (
    <Card title="Details">
      <Facts
        facts={[
          ['Opened', <Time at={incident.opened_at} />],
          ['Last seen', <Time at={incident.last_seen_at} />],
          ['Closed', <Time at={incident.closed_at} none="not yet" />],
          ['Seen', incident.count === 1 ? 'once' : `${count(incident.count)} times`],
        ]}
      />
    </Card>
  );
}
