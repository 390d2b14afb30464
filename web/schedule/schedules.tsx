import type { Schedule } from '../api/types.ts';
import { link, type Route } from '../route.ts';
import { Choice } from '../ui/filters.tsx';
import { Empty, Head, Loaded } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Text, Time } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';
import { Why } from '../ui/why.tsx';
import { stateOf } from './state.ts';
import { NextStart } from './next-start.tsx';
import { Marks, Times } from './times.tsx';
import { toggleSchedule } from './toggle.ts';
import { comingOf, PAST_JOBS, pastOf, ranges, useTimes, type ScheduleTimes } from './use-times.ts';

/** Page of all schedules, with past jobs and coming times on one axis. */
export function SchedulesPage({ route }: { readonly route: Route }) {
  const schedules = useCall('schedule.list', {}, ['job.', 'directive.']);
  const times = useTimes(route);
  return (
    <>
      <Head title="Schedules" about="Past jobs and upcoming times of each schedule.">
        <Choice route={route} name="range" label="Time range" options={ranges} />
      </Head>
      <Loaded call={schedules}>
        {({ schedules: rows }) =>
          rows.length === 0 ? (
            <Empty command="ductile config set plugin:echo.schedules.0.every=5m --apply">
              A schedule starts a command at its times. No plugin has one. Add one:
            </Empty>
          ) : (
            <div class="schedules">
              <div class="schedule marks" aria-hidden="true">
                <span />
                <Marks span={times.span} now={times.now} />
                <span />
              </div>
              {rows.map((row) => (
                <Row
                  key={`${row.plugin}/${row.schedule_id}`}
                  row={row}
                  times={times}
                  reload={schedules.reload}
                />
              ))}
            </div>
          )
        }
      </Loaded>
      {(times.past.data?.next_cursor ?? null) !== null && (
        <p class="soft pad">Only the latest {PAST_JOBS} past jobs are shown.</p>
      )}
    </>
  );
}

interface RowProps {
  readonly row: Schedule;
  readonly times: ScheduleTimes;
  readonly reload: () => void;
}

function Row({ row, times, reload }: RowProps) {
  const { plugin, schedule_id, command, status, last_job_id } = row;
  const { span, now } = times;
  const state = stateOf(row);
  return (
    <section class="schedule" aria-label={`Schedule ${plugin} ${schedule_id}`}>
      <div class="schedule-name">
        <a class="name" href={link('schedules', { id: `${plugin}/${schedule_id}` })}>
          <Text value={plugin} />{' '}
          <span class="soft">
            <Text value={schedule_id} />
          </span>
        </a>
        <div class="soft small">
          <Text value={command} /> · <Text value={row.timing} /> · <Text value={row.timezone} />
        </div>
      </div>
      <Times past={pastOf(times, row)} coming={comingOf(times, row)} span={span} now={now} />
      <div class="schedule-state">
        <Status value={state} />
        <span class="small soft">
          {state === 'overdue' ? (
            <>
              due <Time at={row.next_run_at} />
            </>
          ) : (
            <NextStart row={row} />
          )}
        </span>
        {last_job_id !== null && (
          <span class="small soft">
            <a href={link('jobs', { id: last_job_id })}>last job</a> <Time at={row.last_fired_at} />
          </span>
        )}
        <button type="button" onClick={() => toggleSchedule(row, reload)}>
          {status === 'paused' ? 'Resume' : 'Pause'}
        </button>
      </div>
      {state !== 'active' && (
        <div class="schedule-why">
          <Why kind="schedule" id={`${plugin}/${schedule_id}`} />
        </div>
      )}
    </section>
  );
}
