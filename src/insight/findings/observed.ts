/** Findings that only a running service can detect. `doctor` reads them from the open incidents. */
import { isObject, parseStoredJson, type JsonObject } from '../../base/json.ts';
import type { Job } from '../../job/job.ts';
import type { DueSchedule } from '../../schedule/types.ts';
import {
  defineFinding,
  listOpenIncidents,
  type FindingDefinition,
  type FindingGuide,
} from '../define-finding.service.ts';
import { findingId, type LiveFinding, severities } from '../finding.ts';
import type { Incident, IncidentDraft } from '../types.ts';

interface ObservedDraft<Event> extends FindingGuide {
  /** Returns the object, the message and the figures of an incident. */
  readonly draft: (event: Event) => readonly [key: string, message: string, figures: JsonObject];
  /** The default acknowledges the incident. */
  readonly commands?: (incident: Pick<Incident, 'id' | 'key'>) => string[];
}

export interface ObservedFinding<Event> extends FindingDefinition<Incident> {
  /** Returns the incident of an event. A count of 0 is a problem that lasts. */
  draft(event: Event, count?: number, isAlarm?: boolean): IncidentDraft;
}

/** Defines a finding whose message is recorded in its incident when it happens. */
function defineObserved<Event>({
  draft,
  commands = ({ id }) => [`ductile incident acknowledge ${id}`],
  ...guide
}: ObservedDraft<Event>): ObservedFinding<Event> {
  const definition = defineFinding<Incident>({
    ...guide,
    isObserved: true,
    async find(context) {
      const open = await listOpenIncidents(context);
      return open.filter(
        (incident) =>
          incident.kind === guide.kind &&
          incident.lastSeenAt > (context.acknowledged?.get(findingId(incident)) ?? ''),
      );
    },
    describe: (incident) =>
      describeRecorded(incident, { fix: guide.fix, commands: commands(incident) }),
  });
  return {
    ...definition,
    draft(event, count = 0, isAlarm = false) {
      const [key, message, figures] = draft(event);
      const detail = { message, fix: guide.fix, ...figures };
      return { kind: guide.kind, key, count, detail, isAlarm };
    },
  };
}

/** Describes an incident by the parts in its detail. The others are those of its kind. */
export function describeRecorded(
  { id, kind, key, openedAt, count, detail }: Incident,
  defaults: Pick<LiveFinding, 'fix' | 'commands'>,
) {
  const stored = parseStoredJson(detail);
  const parts = isObject(stored) ? stored : {};
  const text = (name: string): string | undefined =>
    typeof parts[name] === 'string' ? parts[name] : undefined;
  const severity = severities.find((one) => one === text('severity'));
  const times = count === 1 ? 'once' : `${count} times`;
  return {
    key,
    ...(severity === undefined ? {} : { severity }),
    message: text('message') ?? `${kind} of ${key}`,
    evidence: text('evidence') ?? `${text('error') ?? `seen ${times}`} (incident ${id})`,
    fix: text('fix') ?? defaults.fix,
    commands: Array.isArray(parts['commands']) ? parts['commands'].map(String) : defaults.commands,
    why: text('why') ?? text('job_id') ?? id,
    since: openedAt,
    count,
    detail: { incident_id: id },
  };
}

type CommandJob = Pick<Job, 'id' | 'plugin' | 'command'>;

function nameJob({ id, plugin, command }: CommandJob): JsonObject {
  return { plugin, command, job_id: id };
}

interface FailingCommand {
  readonly job: CommandJob;
  readonly failures: number;
  readonly error: string | null;
}

export const failureStreak = defineObserved<FailingCommand>({
  kind: 'failure_streak',
  condition: 'The last 5 or more jobs of a command failed for good.',
  rank: { severity: 'error', category: 'jobs', impact: 'part' },
  fix:
    'Fix the cause that the error names. The next success closes the incident. ' +
    'You can also acknowledge it.',
  command: 'ductile why JOB',
  incident: 'success',
  isAcknowledgeable: true,
  draft: ({ job, failures, error }) => [
    `${job.plugin}/${job.command}`,
    `The last ${failures} jobs of ${job.plugin} ${job.command} failed.`,
    { ...nameJob(job), failures, error },
  ],
});

export const scheduleOverdue = defineObserved<Pick<DueSchedule, 'plugin' | 'scheduleId' | 'dueAt'>>(
  {
    kind: 'schedule_overdue',
    condition:
      'A schedule was due 2 minutes ago and has neither started its job nor skipped that time.',
    rank: { severity: 'warning', category: 'schedules', impact: 'part' },
    fix: 'Find out what keeps it from firing.',
    command: 'ductile why PLUGIN/SCHEDULE',
    incident: 'found',
    commands: ({ key }) => [`ductile why ${key}`],
    draft: ({ plugin, scheduleId, dueAt }) => [
      `${plugin}/${scheduleId}`,
      `The schedule ${plugin}/${scheduleId} was due and has not fired.`,
      { plugin, schedule_id: scheduleId, due_at: dueAt },
    ],
  },
);

interface StalledQueue {
  readonly since: string;
  readonly plugins: readonly string[];
  readonly running: number;
}

export const queueStalled = defineObserved<StalledQueue>({
  kind: 'queue_stalled',
  condition: 'Jobs have been ready for 5 minutes, workers are free, and none has started.',
  rank: { severity: 'error', category: 'service', impact: 'everything' },
  fix: 'Find out what the ready jobs wait for.',
  command: 'ductile queue list',
  incident: 'found',
  commands: () => ['ductile queue', 'ductile system status'],
  draft: ({ since, plugins, running }) => [
    'queue',
    'Jobs are ready, and none has started for a while.',
    { since, plugins: [...plugins], running },
  ],
});

export const poisonJob = defineObserved<{ readonly job: CommandJob; readonly crashes: number }>({
  kind: 'poison_job',
  condition: 'In the last hour, a job died because the service crashed each time it ran.',
  rank: { severity: 'error', category: 'jobs', impact: 'item' },
  fix: 'Find out what the job does to the service before you retry it. Then acknowledge it.',
  command: 'ductile why JOB',
  incident: 'quiet',
  isAcknowledgeable: true,
  draft: ({ job, crashes }) => [
    `${job.plugin}/${job.command}`,
    `A job of ${job.plugin} ${job.command} is dead: the service crashed each time it ran.`,
    { ...nameJob(job), crashes },
  ],
});

export const hopsLimit = defineObserved<{ readonly job: CommandJob; readonly hops: number }>({
  kind: 'hops_limit',
  condition:
    'In the last hour, events caused each other more than `service.max_hops` times. ' +
    'Routes in a loop cause this.',
  rank: { severity: 'warning', category: 'routes', impact: 'part' },
  fix: 'Break the loop of routes that leads back to the plugin. Then acknowledge it.',
  command: 'ductile job tree JOB',
  incident: 'quiet',
  isAcknowledgeable: true,
  draft: ({ job, hops }) => [
    job.plugin,
    `Signals of ${job.plugin} were not routed, because their chain is too long.`,
    { ...nameJob(job), hops },
  ],
});

export const ledgerDamaged = defineObserved<readonly string[]>({
  kind: 'ledger_damaged',
  condition: 'An index of the database does not match its table.',
  rank: { severity: 'error', category: 'state', impact: 'everything' },
  fix:
    'Stop the service. Then restore a backup with `ductile system restore`, ' +
    'or rebuild the indexes with `reindex`.',
  command: 'ductile system check',
  incident: 'found',
  commands: () => ['ductile system check', 'ductile system restore --help'],
  draft: (damage) => [
    'indexes',
    'Indexes of the database do not match their tables.',
    { damage: [...damage] },
  ],
});
