import { isObject, parseStoredJson } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Incident, observedKinds } from '../types.ts';
import type { Check } from '../check.service.ts';
import {
  findingId,
  type Impact,
  type LiveFinding,
  type FindingCategory,
  type Severity,
} from '../finding.ts';

/**
 * Finds open incidents that only a running service can detect. `evidence`, `fix`, `commands`, `why`
 * and `severity` come from the detail of the incident. The defaults are those of its kind.
 */
export const findOpenIncidents: Check = async ({ ledger, keyIds, acknowledged }) => {
  const open = await ledger.incidents.list({ isOpen: true, limit: limits.pageRowsMax });
  // While a service runs, only the service knows which keys it has.
  const isWanted = ({ kind }: Incident): boolean =>
    kind in incidentDefaults && (kind !== 'credential_key_missing' || keyIds === undefined);
  const isUnacknowledged = (incident: Incident): boolean =>
    incident.lastSeenAt > (acknowledged?.get(findingId(incident)) ?? '');
  return open
    .filter((incident) => isWanted(incident) && isUnacknowledged(incident))
    .map(describeIncident);
};

function describeIncident({ id, kind, key, openedAt, count, detail }: Incident): LiveFinding {
  const stored = parseStoredJson(detail);
  const parts = isObject(stored) ? stored : {};
  const text = (name: string): string | undefined =>
    typeof parts[name] === 'string' ? parts[name] : undefined;
  const defaults = incidentDefaults[kind as ObservedKind];
  const jobId = text('job_id');
  const commands = Array.isArray(parts['commands'])
    ? parts['commands'].map(String)
    : defaults.commands({ id, key, jobId });
  return {
    kind,
    key,
    severity: (text('severity') as Severity | undefined) ?? defaults.severity,
    category: defaults.category,
    impact: defaults.impact,
    message: text('message') ?? `${kind} of ${key}`,
    evidence:
      text('evidence') ??
      `${text('error') ?? `seen ${count === 1 ? 'once' : `${count} times`}`} (incident ${id})`,
    fix: text('fix') ?? defaults.fix,
    commands,
    why: text('why') ?? jobId ?? id,
    since: openedAt,
    count,
    detail: { incident_id: id },
  };
}

interface IncidentSubject {
  readonly id: string;
  readonly key: string;
  readonly jobId: string | undefined;
}

interface IncidentDefaults {
  readonly severity: Severity;
  readonly category: FindingCategory;
  readonly impact: Impact;
  readonly fix: string;
  readonly commands: (subject: IncidentSubject) => string[];
}

const acknowledge = ({ id }: IncidentSubject): string => `ductile incident acknowledge ${id}`;

type ObservedKind = (typeof observedKinds)[number] | 'credential_key_missing';

const incidentDefaults: Readonly<Record<ObservedKind, IncidentDefaults>> = {
  failure_streak: {
    severity: 'error',
    category: 'jobs',
    impact: 'part',
    fix: 'Fix the cause that the error names. The next success closes it, or acknowledge it.',
    commands: (subject) => [acknowledge(subject)],
  },
  schedule_overdue: {
    severity: 'warning',
    category: 'schedules',
    impact: 'part',
    fix: 'Find out what keeps it from firing.',
    commands: ({ key }) => [`ductile why ${key}`],
  },
  queue_stalled: {
    severity: 'error',
    category: 'service',
    impact: 'everything',
    fix: 'Find out what the ready jobs wait for.',
    commands: () => ['ductile queue', 'ductile system status'],
  },
  credential_key_missing: {
    severity: 'error',
    category: 'credentials',
    impact: 'part',
    fix: 'Give the service the key that sealed them, or set them again.',
    commands: () => ['ductile credential list'],
  },
  poison_job: {
    severity: 'error',
    category: 'jobs',
    impact: 'item',
    fix: 'Find out what the job does to the service before you retry it. Then acknowledge it.',
    commands: (subject) => [acknowledge(subject)],
  },
  hops_limit: {
    severity: 'warning',
    category: 'routes',
    impact: 'part',
    fix: 'Break the circle of routes that leads back to the plugin. Then acknowledge it.',
    commands: (subject) => [acknowledge(subject)],
  },
  ledger_damaged: {
    severity: 'error',
    category: 'state',
    impact: 'everything',
    fix: 'Stop the service. Then restore a backup, or rebuild the indexes with `reindex`.',
    commands: () => ['ductile system check', 'ductile system restore --help'],
  },
};
