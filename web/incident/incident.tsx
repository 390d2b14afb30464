import type { ComponentChildren } from 'preact';
import type { Output } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { count } from '../text/time.ts';
import { Json } from '../ui/json.tsx';
import { Card, Facts, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { JobTable } from '../job/jobs.tsx';
import { resetBreaker } from '../overview/breaker.ts';
import { SignalTable } from '../signal/signals.tsx';
import { placeOf } from './key.ts';

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

function Acts({ incident: { kind, key, status }, reload }: ActsProps): ComponentChildren {
  const place = placeOf(key);
  if (kind !== 'breaker_open' || status !== 'open' || place === undefined) return null;
  return (
    <button type="button" class="main" onClick={() => resetBreaker(place, reload)}>
      Reset the breaker
    </button>
  );
}

/** Kinds whose key is `<plugin>/<command>`. */
const ofCommands = new Set(['failure_streak', 'breaker_open', 'poison_job']);

function Evidence({ incident: { kind, key, detail, signals } }: { readonly incident: Story }) {
  const place = ofCommands.has(kind) ? placeOf(key) : undefined;
  return (
    <div>
      {place !== undefined && <Failed plugin={place[0]} command={place[1]} />}
      <Card title="What is known">
        <Json value={detail} label="what is known" />
      </Card>
      {signals.length > 0 && (
        <Card title="What was told of it">
          <SignalTable signals={signals} label="What was told of it" />
        </Card>
      )}
    </div>
  );
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
      aside={<a href={link('jobs', { query: { plugin, command } })}>All its jobs</a>}
    >
      <Loaded call={failed}>
        {({ jobs }) => <JobTable jobs={jobs} label="Recent failures" isShort />}
      </Loaded>
    </Card>
  );
}

function IncidentFacts({ incident }: { readonly incident: Story }) {
  return (
    <Card title="Facts">
      <Facts
        facts={[
          ['Opened', <Time at={incident.opened_at} />],
          ['Last seen', <Time at={incident.last_seen_at} />],
          ['Closed', <Time at={incident.closed_at} none="not yet" />],
          ['Seen', `${count(incident.count)} times`],
        ]}
      />
    </Card>
  );
}
