import type { Finding, Incident } from '../api/types.ts';

type MergedFinding = Finding & { readonly incident: Incident | undefined };

const severities: readonly string[] = ['error', 'warning', 'info'];

/**
 * Joins findings with their incidents, and sorts them by severity. `doctor` reports open incidents
 * itself, so incidents without a finding are dropped. Without `doctor`, only incidents are returned.
 */
export function mergeIncidents(
  findings: readonly Finding[] | undefined,
  incidents: readonly Incident[],
): MergedFinding[] {
  const open = new Map(incidents.map((incident) => [`${incident.kind}:${incident.key}`, incident]));
  const merged =
    findings === undefined
      ? [...open].map(([id, incident]) => describe(id, incident))
      : findings.map((finding) => ({ ...finding, incident: open.get(finding.id) }));
  const rank = ({ severity }: Finding): number => severities.indexOf(severity);
  return merged.toSorted((a, b) => rank(a) - rank(b));
}

/** True for errors, warnings, and notes that wait for a decision. */
export function needsAttention({ severity, id, place, commands }: Finding): boolean {
  return severity !== 'info' || (place === id && commands.length > 0);
}

function describe(id: string, incident: Incident): MergedFinding {
  const [plugin = '', command = ''] = incident.key.split('/');
  const isBreaker = incident.kind === 'breaker_open' && command !== '';
  return {
    kind: incident.kind,
    severity: 'error',
    category: 'incidents',
    place: id,
    key: incident.key,
    message: incident.message,
    fix: '',
    id,
    evidence: null,
    commands: [
      ...(isBreaker ? [`ductile breaker reset ${plugin} --command ${command}`] : []),
      `ductile incident show ${incident.incident_id}`,
    ],
    why: null,
    since: incident.opened_at,
    count: incident.count,
    detail: null,
    incident,
  };
}
