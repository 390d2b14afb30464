import type { ComponentChildren } from 'preact';
import { link } from '../route.ts';
import { Card } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Text, Time } from '../ui/text.tsx';
import { useCall, type Called } from '../ui/use-call.ts';
import { placeOf } from '../incident/key.ts';
import { isLate } from '../schedule/late.ts';
import { resetBreaker } from './breaker.ts';

interface Trouble {
  readonly key: string;
  readonly word: string;
  readonly shape: string;
  readonly says: ComponentChildren;
  readonly since: string | null;
  /** Whose breaker it is that is open. */
  readonly breaker?: readonly [plugin: string, command: string] | undefined;
  readonly href?: string;
}

/** What is wrong now, and what can be done about it; nothing where all is well. */
export function Troubles() {
  const incidents = useCall('incident.list', {}, ['incident.']);
  const breakers = useCall('system.breaker', {}, ['incident.', 'directive.']);
  const schedules = useCall('schedule.list', {}, ['incident.', 'directive.']);
  const told: Trouble[] = (incidents.data?.incidents ?? []).map((one) => ({
    key: `${one.kind} ${one.key}`,
    word: one.kind.replaceAll('_', ' '),
    shape: one.kind === 'schedule_overdue' ? 'overdue' : 'halted',
    says: <Text value={one.message} />,
    since: one.opened_at,
    href: link('incidents', { id: one.incident_id }),
    ...(one.kind === 'breaker_open' ? { breaker: placeOf(one.key) } : {}),
  }));
  const known = new Set(told.map(({ key }) => key));
  const open = (breakers.data?.breakers ?? [])
    .filter(({ state }) => state !== 'closed')
    .map(({ plugin, command, failure_count, opened_at, last_job_id }): Trouble => ({
      key: `breaker_open ${plugin}/${command}`,
      word: 'breaker open',
      shape: 'open',
      says: <Text value={`${plugin} ${command} failed ${failure_count} times in a row`} />,
      since: opened_at,
      breaker: [plugin, command],
      ...(last_job_id === null ? {} : { href: link('jobs', { id: last_job_id }) }),
    }));
  const late = (schedules.data?.schedules ?? [])
    .filter(isLate)
    .map(({ plugin, schedule_id, next_run_at }): Trouble => ({
      key: `schedule_overdue ${plugin}/${schedule_id}`,
      word: 'schedule overdue',
      shape: 'overdue',
      says: <Text value={`${plugin} ${schedule_id} was due`} />,
      since: next_run_at,
      href: link('schedules', { id: `${plugin}/${schedule_id}` }),
    }));
  const all = [...told, ...[...open, ...late].filter(({ key }) => !known.has(key))];
  const unseen = <Unseen calls={[incidents, breakers, schedules]} />;
  if (all.length === 0) return unseen;
  const reload = (): void => {
    incidents.reload();
    breakers.reload();
  };
  return (
    <>
      <Card title="Needs attention" tone="alarm">
        <ul class="troubles">
          {all.map((trouble) => (
            <TroubleItem key={trouble.key} trouble={trouble} reload={reload} />
          ))}
        </ul>
      </Card>
      {unseen}
    </>
  );
}

/** Whoever may not see what is wrong must not take it that nothing is. */
function Unseen({ calls }: { readonly calls: readonly Called<unknown>[] }) {
  const reasons = calls.flatMap(({ error }) =>
    // That nobody answers is said once for the whole page.
    error === undefined || error.status === 0 ? [] : [error.hint ?? error.message],
  );
  if (reasons.length === 0) return null;
  return (
    <p class="soft pad">
      Not everything that may need attention can be shown.{' '}
      <Text value={[...new Set(reasons)].join(' ')} />
    </p>
  );
}

interface ItemProps {
  readonly trouble: Trouble;
  readonly reload: () => void;
}

function TroubleItem({ trouble, reload }: ItemProps) {
  const { word, shape, says, since, breaker, href } = trouble;
  return (
    <li>
      <Status value={shape} says={word} />
      <span class="says">
        {says}{' '}
        <span class="soft">
          <Time at={since} />
        </span>
      </span>
      <span class="acts">
        {href !== undefined && <a href={href}>Look</a>}
        {breaker !== undefined && (
          <button type="button" onClick={() => resetBreaker(breaker, reload)}>
            Reset
          </button>
        )}
      </span>
    </li>
  );
}
