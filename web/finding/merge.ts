import type { Finding, Incident } from '../api/types.ts';

type Merged = Finding & { readonly incident: Incident | undefined };

const severities: readonly string[] = ['error', 'warning', 'info'];

/**
 * Gives findings their incidents and ranks them. `doctor` lists open incidents too, so those without a
 * finding are about to close. Without `doctor`, they are all that is known.
 */
export function mergeIncidents(
  findings: readonly Finding[] | undefined,
  incidents: readonly Incident[],
): Merged[] {
  const open = new Map(incidents.map((incident) => [`${incident.kind}:${incident.key}`, incident]));
  const merged =
    findings === undefined
      ? [...open].map(([id, incident]) => describe(id, incident))
      : findings.map((finding) => ({ ...finding, incident: open.get(finding.id) }));
  const rank = ({ severity }: Finding): number => severities.indexOf(severity);
  return merged.toSorted((a, b) => rank(a) - rank(b));
}

/** True for errors, warnings and what waits for a decision; notes about files need nothing. */
export function needsAttention({ severity, id, place, commands }: Finding): boolean {
  return severity !== 'info' || (place === id && commands.length > 0);
}

function describe(id: string, incident: Incident): Merged {
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
      ...(isBreaker ? [`ductile system reset ${plugin} --command ${command}`] : []),
      `ductile incident show ${incident.incident_id}`,
    ],
    why: null,
    since: incident.opened_at,
    count: incident.count,
    detail: null,
    incident,
  };
}
