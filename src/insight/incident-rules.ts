import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { findingId, type LiveFinding, CHECK_FAILED } from './finding.ts';
import {
  checkedKinds,
  type Incident,
  type IncidentKind,
  type IncidentMoves,
  type QueueHeads,
} from './types.ts';
import type { DueSchedule } from '../schedule/types.ts';
import type { Emission } from '../signal/types.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import { followRuntime } from '../pipeline/follow-signal.ts';
import type { FollowRules } from '../pipeline/follow-rules.ts';

/** Something that is wrong now, or went wrong since somebody last looked. */
export interface IncidentTrouble {
  readonly kind: IncidentKind;
  readonly key: string;
  /** How often it was seen since. */
  readonly count: number;
  readonly detail: JsonObject;
  /** It is about the handling of what the runtime itself said: alarms about alarms end here. */
  readonly isAlarm?: boolean;
}

export interface IncidentRules {
  readonly overdueMs: number;
  readonly stalledMs: number;
  readonly quietMs: number;
  readonly renewMs: number;
}

/** What one host looks at for all. */
export interface WatchedState {
  /** Schedules whose time came longer ago than may be. */
  readonly overdue: readonly DueSchedule[];
  readonly queue: QueueHeads;
  /** Plugins whose ready jobs are not expected to start: switched off, or as many run as may. */
  readonly isHeld: (plugin: string) => boolean;
  /** Nothing is started for the time being, because somebody wants it so. */
  readonly isPaused: boolean;
  readonly slots: number;
  /** Damage that the last check of the indexes found. */
  readonly damage: readonly string[];
  /** Findings of the checks in `src/insight`; those of an incident kind are incidents while they last. */
  readonly findings: readonly LiveFinding[];
}

/** Whether a check could not run. */
export function hasFailedCheck(findings: readonly LiveFinding[]): boolean {
  return findings.some(({ kind }) => kind === CHECK_FAILED);
}

/** What stands wrong, each as long as it does. */
export function findTroubles(standing: WatchedState, rules: IncidentRules): IncidentTrouble[] {
  return [
    ...standing.overdue.filter(({ isLastOpen }) => !isLastOpen).map(toOverdue),
    ...findStall(standing, rules),
    ...findDamage(standing),
    ...standing.findings.flatMap(toFindingTrouble),
  ];
}

/** Kinds that are over when they are no longer found. */
const standingKinds: ReadonlySet<IncidentKind> = new Set([
  'schedule_overdue',
  'queue_stalled',
  'ledger_damaged',
  ...checkedKinds,
]);

/** Those that only happen: they are over when they have not happened for long. */
const passingKinds: ReadonlySet<IncidentKind> = new Set(['poison_job', 'hops_limit']);

function toFindingTrouble(finding: LiveFinding): IncidentTrouble[] {
  const { kind, key, severity, message, evidence, fix, commands, why, since, detail } = finding;
  if (!isCheckedKind(kind)) return [];
  const found = { ...detail, message, severity, evidence, fix, commands: [...commands] };
  const more = {
    ...(why === undefined ? {} : { why }),
    ...(typeof since === 'string' ? { since } : {}),
  };
  return [{ kind, key, count: 0, detail: { ...found, ...more } }];
}

function isCheckedKind(kind: string): kind is IncidentKind {
  return (checkedKinds as readonly string[]).includes(kind);
}

function toOverdue({ plugin, scheduleId, dueAt }: DueSchedule): IncidentTrouble {
  return {
    kind: 'schedule_overdue',
    key: `${plugin}/${scheduleId}`,
    count: 0,
    detail: {
      message: `the schedule ${plugin}/${scheduleId} was due and has not fired`,
      plugin,
      schedule_id: scheduleId,
      due_at: dueAt,
    },
  };
}

function findStall(standing: WatchedState, { stalledMs }: IncidentRules): IncidentTrouble[] {
  const { queue, isHeld, isPaused, slots } = standing;
  const running = [...queue.running.values()].reduce((sum, count) => sum + count, 0);
  // What is busy is not stalled: jobs may take long.
  if (isPaused || queue.isMoving || (slots > 0 && running >= slots)) return [];
  const cutMs = fromTimestamp(queue.now) - stalledMs;
  const stuck = queue.heads.filter(
    ({ plugin, readyAt }) => !isHeld(plugin) && fromTimestamp(readyAt) < cutMs,
  );
  const since = stuck.map(({ readyAt }) => readyAt).toSorted()[0];
  if (since === undefined) return [];
  const plugins = stuck.map(({ plugin }) => plugin).slice(0, PLUGINS_TOLD);
  const message = 'jobs are ready, and none has been started for long';
  return [
    { kind: 'queue_stalled', key: 'queue', count: 0, detail: { message, since, plugins, running } },
  ];
}

const PLUGINS_TOLD = 10;

function findDamage({ damage }: WatchedState): IncidentTrouble[] {
  if (damage.length === 0) return [];
  const message =
    'indexes do not match their tables; stop the service, then restore a backup with ' +
    '`ductile system restore`, or rebuild them with `reindex` in the database';
  return [
    { kind: 'ledger_damaged', key: 'indexes', count: 0, detail: { message, damage: [...damage] } },
  ];
}

export interface AttemptTroubles {
  /** What went wrong here since the last look. */
  readonly troubles: readonly IncidentTrouble[];
  /** How many of those that only happen are in it. */
  readonly passed: number;
  /** How long ago commands, as `<plugin>/<command>`, succeeded here and have not failed after it. */
  readonly well: ReadonlyMap<string, number>;
}

export interface IncidentLook {
  readonly now: Timestamp;
  readonly open: readonly Incident[];
  readonly seen: AttemptTroubles;
  /** What stands wrong, where this host is the one that looks. */
  readonly lasting: readonly IncidentTrouble[] | undefined;
  /** False before indexes were compared for the first time: what was found earlier stays open. */
  readonly isDamageKnown?: boolean;
  /** When findings were acknowledged, by their id. */
  readonly acknowledged?: ReadonlyMap<string, Timestamp>;
  /** A check could not run: what it would have found is unknown, so no standing incident is closed. */
  readonly isPartial?: boolean;
}

/** What is to be opened, renewed and closed; each opening and closing is told. */
export function planIncidentMoves(
  {
    now,
    open,
    seen,
    lasting,
    isPartial = false,
    isDamageKnown = true,
    acknowledged = new Map(),
  }: IncidentLook,
  rules: IncidentRules,
  follow: FollowRules,
): IncidentMoves {
  const troubles = [...seen.troubles, ...(lasting ?? [])];
  const byKey = new Map(open.map((incident) => [incidentKey(incident), incident]));
  const nowMs = fromTimestamp(now);
  const isAcknowledged = (incident: Incident): boolean =>
    incident.lastSeenAt <= (acknowledged.get(findingId(incident)) ?? '');
  /** It was acknowledged, and nothing has happened since. Findings of checks are new if they are found. */
  const isSettled = ({ kind, key, count }: IncidentTrouble): boolean => {
    const known = byKey.get(incidentKey({ kind, key }));
    return count === 0 && !isCheckedKind(kind) && known !== undefined && isAcknowledged(known);
  };
  const opened = troubles.flatMap((trouble) => {
    if (byKey.has(incidentKey(trouble))) return [];
    const id = makeId();
    const { kind, key, count } = trouble;
    const detail = JSON.stringify({ ...trouble.detail, routed: trouble.isAlarm !== true });
    const incident = { id, kind, key, count: Math.max(1, count), detail };
    return [{ ...incident, emission: toEmission('opened', incident, follow) }];
  });
  const renewed = troubles
    .filter((trouble) => !isSettled(trouble))
    .flatMap((trouble) => {
      const known = byKey.get(incidentKey(trouble));
      if (known === undefined) return [];
      const isFresh = nowMs - fromTimestamp(known.lastSeenAt) < rules.renewMs;
      if (trouble.count === 0 && isFresh) return [];
      const { routed } = parseJson(known.detail) as JsonObject;
      const detail = JSON.stringify({ ...trouble.detail, routed: routed ?? true });
      return [{ id: known.id, count: trouble.count, detail }];
    });
  const wrong = new Set(troubles.filter((trouble) => !isSettled(trouble)).map(incidentKey));
  const isOver = (incident: Incident): boolean => {
    if (wrong.has(incidentKey(incident))) return false;
    if (isAcknowledged(incident) && !standingKinds.has(incident.kind)) return true;
    if (incident.kind === 'failure_streak') {
      // One that began elsewhere after the success is not over by it.
      const agoMs = seen.well.get(incident.key);
      return agoMs !== undefined && fromTimestamp(incident.openedAt) <= nowMs - agoMs;
    }
    if (lasting === undefined) return false;
    if (incident.kind === 'ledger_damaged' && !isDamageKnown) return false;
    if (standingKinds.has(incident.kind)) return !isPartial;
    const quietMs = nowMs - fromTimestamp(incident.lastSeenAt);
    return passingKinds.has(incident.kind) && quietMs >= rules.quietMs;
  };
  const closed = open
    .filter(isOver)
    .map((incident) => ({ id: incident.id, emission: toEmission('closed', incident, follow) }));
  return { opened, renewed, closed };
}

function incidentKey({ kind, key }: Pick<Incident, 'kind' | 'key'>): string {
  return `${kind} ${key}`;
}

type IncidentNotice = Pick<Incident, 'id' | 'kind' | 'key' | 'count' | 'detail'>;

function toEmission(
  moment: 'opened' | 'closed',
  incident: IncidentNotice,
  rules: FollowRules,
): Emission {
  const { id: incidentId, kind, key, count } = incident;
  const detail = parseJson(incident.detail) as JsonObject;
  const said = {
    message: describeMoment(moment, detail, kind),
    next: findNext(moment, detail, incidentId),
  };
  const about = { incident_id: incidentId, kind, key, count, status: moment };
  const payload: JsonObject = { ...about, ...said, detail };
  const id = makeId();
  const signal: SignalDraft = {
    id,
    type: `incident.${moment}`,
    source: RUNTIME_SOURCE,
    subjectType: 'incident',
    subjectId: incidentId,
    data: JSON.stringify(payload),
    hops: 1,
    correlationId: incidentId,
  };
  if (detail['routed'] === false) return { signal, jobs: [], runs: [] };
  return { signal, ...followRuntime(signal, { payload, context: {} }, rules, Date.now()) };
}

/** The sentence that an alert shows. */
function describeMoment(
  moment: 'opened' | 'closed',
  { message }: JsonObject,
  kind: IncidentKind,
): string {
  const sentence = typeof message === 'string' ? message : kind;
  return moment === 'opened' ? sentence : `Resolved: ${sentence}`;
}

/** The command that resolves an open incident, else the one that shows it. */
function findNext(
  moment: 'opened' | 'closed',
  { commands }: JsonObject,
  incidentId: string,
): string {
  const [command] = moment === 'opened' && Array.isArray(commands) ? commands : [];
  return typeof command === 'string' ? command : `ductile incident show ${incidentId}`;
}
