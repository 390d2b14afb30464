import type { Coming, Schedule } from '../api/types.ts';
import { Refusal } from '../api/client.ts';
import { link, type Route } from '../route.ts';
import { JobTable } from '../job/jobs.tsx';
import { Choice } from '../ui/filters.tsx';
import { Card, Empty, Facts, Head, Loaded, Problem } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Id, Maybe, Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { stateOf } from './state.ts';
import { NextStart } from './next-start.tsx';
import { Marks, Times } from './times.tsx';
import { toggleSchedule } from './toggle.ts';
import { comingOf, pastOf, ranges, useTimes, type ScheduleTimes } from './use-times.ts';

/** Page of a schedule, whose id is `<plugin>/<schedule>`. */
export function SchedulePage({ route }: { readonly route: Route }) {
  const id = route.id ?? '';
  const [plugin = '', ...rest] = id.split('/');
  const schedules = useCall('schedule.list', { plugin, retired: true }, ['job.', 'directive.']);
  const times = useTimes(route, plugin);
  return (
    <Loaded call={schedules} title="Schedule">
      {({ schedules: rows }) => {
        const row = rows.find(({ schedule_id }) => schedule_id === rest.join('/'));
        if (row === undefined) {
          const error = new Refusal(404, { error: `there is no schedule ${id}` });
          return (
            <>
              <Head title="Schedule" />
              <Problem error={error} />
            </>
          );
        }
        return <Story row={row} times={times} route={route} reload={schedules.reload} />;
      }}
    </Loaded>
  );
}

interface StoryProps {
  readonly row: Schedule;
  readonly times: ScheduleTimes;
  readonly route: Route;
  readonly reload: () => void;
}

function Story({ row, times, route, reload }: StoryProps) {
  const past = pastOf(times, row);
  const coming = comingOf(times, row);
  return (
    <>
      <Head
        title={
          <>
            <Text value={row.plugin} />{' '}
            <span class="soft">
              <Text value={row.schedule_id} />
            </span>
          </>
        }
        about={
          <>
            <Status value={stateOf(row)} />
            <span>
              <Text value={row.timing} /> · <Text value={row.timezone} />
            </span>
          </>
        }
      >
        <button type="button" onClick={() => toggleSchedule(row, reload)}>
          {row.status === 'paused' ? 'Resume' : 'Pause'}
        </button>
      </Head>
      <Why kind="schedule" id={`${row.plugin}/${row.schedule_id}`} />
      <Card
        title="Timeline"
        aside={<Choice route={route} name="range" label="Time range" options={ranges} />}
      >
        <div class="one-schedule">
          <Marks span={times.span} now={times.now} />
          <Times past={past} coming={coming} span={times.span} now={times.now} />
        </div>
      </Card>
      <div class="columns">
        <Card title="Past jobs">
          {past.length === 0 ? (
            <Empty>This schedule started no job in this time range.</Empty>
          ) : (
            <JobTable jobs={past.slice(0, SHOWN)} label="Jobs of the schedule" isShort />
          )}
        </Card>
        <div>
          <ScheduleFacts row={row} />
          <Next coming={coming.slice(0, NEXT)} />
        </div>
      </div>
    </>
  );
}

const SHOWN = 20;
const NEXT = 8;

function Next({ coming }: { readonly coming: readonly Coming[] }) {
  return (
    <Card title="Upcoming times">
      {coming.length === 0 && <p class="soft pad">No upcoming time in this range.</p>}
      <ul class="plain-list">
        {coming.map(({ at, count, fires, reason }) => (
          <li key={at}>
            <Time at={at} />
            {count > 1 && ` and ${count - 1} more`}{' '}
            {!fires && (
              <span class="soft">
                skipped: <Maybe value={reason} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function ScheduleFacts({ row }: { readonly row: Schedule }) {
  const { last_job_id: last } = row;
  return (
    <Card title="Details">
      <Facts
        facts={[
          ['Command', <Text value={`${row.plugin} ${row.command}`} />],
          ['Next start', <NextStart row={row} isFact />],
          row.next_run_at === null || row.next_run_at === row.next_start_at
            ? undefined
            : ['Due', <Time at={row.next_run_at} />],
          ['Last fired', <Time at={row.last_fired_at} none="never" />],
          last === null
            ? undefined
            : [
                'Last job',
                <>
                  <Id id={last} href={link('jobs', { id: last })} />{' '}
                  <Maybe value={row.last_job_status} />
                </>,
              ],
          row.last_skipped_at === null
            ? undefined
            : [
                'Last skipped',
                <>
                  <Time at={row.last_skipped_at} /> <Maybe value={row.last_skip_reason} />
                </>,
              ],
          row.reason === null ? undefined : ['Reason', <Text value={row.reason} />],
        ]}
      />
    </Card>
  );
}
