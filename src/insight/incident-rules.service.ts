import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { findingId, type LiveFinding } from './finding.ts';
import { checkFailed, findDefinition } from './findings/all.ts';
import { ledgerDamaged, queueStalled, scheduleOverdue } from './findings/observed.ts';
import type { Incident, IncidentChanges, IncidentDraft, QueueHeads } from './types.ts';
import type { DueSchedule } from '../schedule/types.ts';
import type { Emission } from '../pipeline/run/types.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import { followRuntime } from '../pipeline/follow-signal.ts';
import type { FollowRules } from '../pipeline/follow-rules.ts';

interface IncidentRules {
  readonly overdueMs: number;
  readonly stalledMs: number;
  readonly quietMs: number;
  readonly renewMs: number;
}

/** The state that one host reads for all hosts. */
export interface ServiceState {
  /** Schedules that should have fired longer ago than the limit. */
  readonly overdue: readonly DueSchedule[];
  readonly queue: QueueHeads;
  /** Returns whether ready jobs of a plugin can't start: it is disabled, not loaded, or at its limit. */
  readonly isHeld: (plugin: string) => boolean;
  /** An operator paused the service. */
  readonly isPaused: boolean;
  readonly slots: number;
  /** Damage that the last check of the indexes found. */
  readonly damage: readonly string[];
  /** Findings of the checks in `src/insight`; those of an incident kind are incidents while they last. */
  readonly findings: readonly LiveFinding[];
}

/** Returns whether a check could not run. */
export function hasFailedCheck(findings: readonly LiveFinding[]): boolean {
  return findings.some(({ kind }) => kind === checkFailed.kind);
}

/** Finds problems that last. Each is an incident until it is no longer found. */
export function findLastingIncidents(state: ServiceState, rules: IncidentRules): IncidentDraft[] {
  return [
    ...state.overdue
      .filter(({ isLastOpen }) => !isLastOpen)
      .map((schedule) => scheduleOverdue.draft(schedule)),
    ...findStall(state, rules),
    ...(state.damage.length === 0 ? [] : [ledgerDamaged.draft(state.damage)]),
    ...state.findings.flatMap(toFindingDraft),
  ];
}

function toFindingDraft(finding: LiveFinding): IncidentDraft[] {
  const { kind, key, severity, message, evidence, fix, commands, why, since, detail } = finding;
  if (!isChecked(kind)) return [];
  const found = { ...detail, message, severity, evidence, fix, commands: [...commands] };
  const more = {
    ...(why === undefined ? {} : { why }),
    ...(typeof since === 'string' ? { since } : {}),
  };
  return [{ kind, key, count: 0, detail: { ...found, ...more } }];
}

/** Returns whether an incident is open as long as a check finds it. */
function isChecked(kind: string): boolean {
  const definition = findDefinition(kind);
  return definition?.incident === 'found' && definition.isObserved !== true;
}

function findStall(state: ServiceState, { stalledMs }: IncidentRules): IncidentDraft[] {
  const { queue, isHeld, isPaused, slots } = state;
  const running = [...queue.running.values()].reduce((sum, count) => sum + count, 0);
  // A busy queue isn't stalled: jobs can take long.
  if (isPaused || queue.isMoving || (slots > 0 && running >= slots)) return [];
  const cutMs = fromTimestamp(queue.now) - stalledMs;
  const stuck = queue.heads.filter(
    ({ plugin, readyAt }) => !isHeld(plugin) && fromTimestamp(readyAt) < cutMs,
  );
  const since = stuck.map(({ readyAt }) => readyAt).toSorted()[0];
  if (since === undefined) return [];
  const plugins = stuck.map(({ plugin }) => plugin).slice(0, PLUGINS_SHOWN);
  return [queueStalled.draft({ since, plugins, running })];
}

const PLUGINS_SHOWN = 10;

/** The incidents that follow from the attempts of this process since the last review. */
export interface AttemptIncidents {
  readonly drafts: readonly IncidentDraft[];
  /** The number of single events in it, before they were merged. */
  readonly eventCount: number;
  /** How long ago each `<plugin>/<command>` succeeded here, if it hasn't failed since. */
  readonly succeededAgoMs: ReadonlyMap<string, number>;
}

/** Everything that a review of the incidents is decided from. */
export interface IncidentReview {
  readonly now: Timestamp;
  readonly open: readonly Incident[];
  readonly attempts: AttemptIncidents;
  /** Problems that last. Undefined if another host reviews them. */
  readonly lasting: readonly IncidentDraft[] | undefined;
  /** False before the first check of the indexes. Then an incident about damage stays open. */
  readonly isDamageKnown?: boolean;
  /** When findings were acknowledged, by their id. */
  readonly acknowledged?: ReadonlyMap<string, Timestamp>;
  /** A check could not run. Its findings are unknown, so no lasting incident is closed. */
  readonly isPartial?: boolean;
}

/** Decides which incidents to open, renew and close. Each opening and closing emits a signal. */
export function planIncidentChanges(
  {
    now,
    open,
    attempts,
    lasting,
    isPartial = false,
    isDamageKnown = true,
    acknowledged = new Map(),
  }: IncidentReview,
  rules: IncidentRules,
  follow: FollowRules,
): IncidentChanges {
  const drafts = [...attempts.drafts, ...(lasting ?? [])];
  const byKey = new Map(open.map((incident) => [incidentKey(incident), incident]));
  const nowMs = fromTimestamp(now);
  const isAcknowledged = (incident: Incident): boolean =>
    incident.lastSeenAt <= (acknowledged.get(findingId(incident)) ?? '');
  // A draft is settled if it was acknowledged and hasn't happened since. A check leaves out
  // acknowledged objects itself, so its findings are always new.
  const isSettled = ({ kind, key, count }: IncidentDraft): boolean => {
    const known = byKey.get(incidentKey({ kind, key }));
    return count === 0 && !isChecked(kind) && known !== undefined && isAcknowledged(known);
  };
  const opened = drafts.flatMap((draft) => {
    if (byKey.has(incidentKey(draft))) return [];
    const id = makeId();
    const { kind, key, count } = draft;
    const detail = JSON.stringify({ ...draft.detail, routed: draft.isAlarm !== true });
    const incident = { id, kind, key, count: Math.max(1, count), detail };
    return [{ ...incident, emission: toEmission('opened', incident, follow) }];
  });
  const unsettled = drafts.filter((draft) => !isSettled(draft));
  const renewed = unsettled.flatMap((draft) => {
    const known = byKey.get(incidentKey(draft));
    if (known === undefined) return [];
    const isFresh = nowMs - fromTimestamp(known.lastSeenAt) < rules.renewMs;
    if (draft.count === 0 && isFresh) return [];
    const { routed } = parseJson(known.detail) as JsonObject;
    const detail = JSON.stringify({ ...draft.detail, routed: routed ?? true });
    return [{ id: known.id, count: draft.count, detail }];
  });
  const found = new Set(unsettled.map(incidentKey));
  const isOver = (incident: Incident): boolean => {
    if (found.has(incidentKey(incident))) return false;
    const end = findDefinition(incident.kind)?.incident;
    if (isAcknowledged(incident) && end !== 'found') return true;
    if (end === 'success') {
      // A success here doesn't end a streak that began on another host after it.
      const agoMs = attempts.succeededAgoMs.get(incident.key);
      return agoMs !== undefined && fromTimestamp(incident.openedAt) <= nowMs - agoMs;
    }
    if (lasting === undefined) return false;
    if (incident.kind === ledgerDamaged.kind && !isDamageKnown) return false;
    if (end === 'found') return !isPartial;
    const quietMs = nowMs - fromTimestamp(incident.lastSeenAt);
    return end === 'quiet' && quietMs >= rules.quietMs;
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
  const payload: JsonObject = {
    incident_id: incidentId,
    kind,
    key,
    count,
    status: moment,
    message: describeMoment(moment, detail, kind),
    next: findNextCommand(moment, detail, incidentId),
    detail,
  };
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

/** Returns the sentence that an alert shows. */
function describeMoment(
  moment: 'opened' | 'closed',
  { message }: JsonObject,
  kind: string,
): string {
  const sentence = typeof message === 'string' ? message : kind;
  return moment === 'opened' ? sentence : `Resolved: ${sentence}`;
}

/** Returns the command that resolves an open incident, or the one that shows it. */
function findNextCommand(
  moment: 'opened' | 'closed',
  { commands }: JsonObject,
  incidentId: string,
): string {
  const [command] = moment === 'opened' && Array.isArray(commands) ? commands : [];
  return typeof command === 'string' ? command : `ductile incident show ${incidentId}`;
}
