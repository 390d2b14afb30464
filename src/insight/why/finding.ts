import { parseStoredJson, isObject } from '../../base/json.ts';
import { findingId, type LiveFinding } from '../finding.ts';
import type { Incident } from '../types.ts';
import {
  toExplanation,
  type ExplanationCause,
  type Explanation,
  type ExplanationFact,
} from './explanation.ts';

/** Explains a finding of `doctor`: what proves it, what is behind it, and what resolves it. */
export function explainFinding(finding: LiveFinding, deeper?: Explanation): Explanation {
  const subject = { kind: 'finding', id: findingId(finding), state: finding.severity } as const;
  const cause = toFindingCause(finding);
  return toExplanation(subject, [cause], deeper?.chain ?? [], whyOf(finding), {
    blockers: [cause],
  });
}

/** Explains an incident by the finding that keeps it open. A single event has no finding. */
export function explainIncident(
  incident: Incident,
  finding: LiveFinding | undefined,
  deeper: Explanation | undefined,
): Explanation {
  const { id, kind, key, openedAt, closedAt, lastSeenAt, count } = incident;
  const subject = { kind: 'incident', id, state: closedAt === null ? 'open' : 'closed' } as const;
  const record: ExplanationFact = {
    fact: `the incident ${kind} of ${key} was opened, and seen ${count} times since`,
    evidence: `incident ${id}, last seen at ${lastSeenAt}`,
    at: openedAt,
  };
  const origin = [record, ...(deeper?.chain ?? [])];
  if (closedAt !== null) {
    const over: ExplanationCause = {
      fact: 'it is over',
      evidence: `${kind} of ${key}: ${messageIn(incident)}`,
      at: closedAt,
    };
    return toExplanation(subject, [over], origin, [`ductile incident show ${id}`]);
  }
  const cause = finding === undefined ? describeUnconfirmed(incident) : toFindingCause(finding);
  const more = finding === undefined ? [] : whyOf(finding);
  const commands = [...more, `ductile incident show ${id}`];
  return toExplanation(subject, [cause], origin, commands, { blockers: [cause] });
}

/** Returns a finding as a cause: its message is the fact, and its fix ends it. */
export function toFindingCause({
  message,
  evidence,
  fix,
  commands,
  since,
  endsAt,
  repair,
}: LiveFinding): ExplanationCause {
  const fact = message.replace(/\.$/, '');
  return { fact, evidence, at: since, movesAt: endsAt, movesBy: fix, commands, repair };
}

function whyOf({ why }: LiveFinding): string[] {
  return why === undefined ? [] : [`ductile why ${why}`];
}

function describeUnconfirmed(incident: Incident): ExplanationCause {
  return {
    fact: messageIn(incident),
    evidence: `${incident.kind} of ${incident.key}; the checks of this process do not find it now`,
    at: incident.lastSeenAt,
    movesBy: 'it closes when it has not been seen for a while',
    commands: ['ductile doctor'],
  };
}

function messageIn({ kind, key, detail }: Incident): string {
  const stored = parseStoredJson(detail);
  const message = isObject(stored) ? stored['message'] : undefined;
  return typeof message === 'string' ? message.replace(/\.$/, '') : `${kind} of ${key}`;
}
