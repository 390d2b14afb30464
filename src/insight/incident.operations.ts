import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { parseStoredJson } from '../base/json.ts';
import { incidentKinds } from './findings/all.ts';
import type { Incident } from './types.ts';
import { readSeqCursor, readEpoch, writeCursor } from '../operation/page.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { findById } from '../operation/find-by-id.ts';
import { cursorField, limitField } from '../operation/page.ts';
import { showSignal, signalShape } from '../job/shapes.service.ts';
import { isVisible } from '../operation/visibility.ts';

const time = z.string().describe('UTC, ISO 8601 with milliseconds');

const incidentShape = z.object({
  incident_id: z.string(),
  kind: z.enum(incidentKinds),
  key: z.string().describe('object of the incident, such as mail/handle'),
  status: z.enum(['open', 'closed']),
  message: z.string(),
  opened_at: time,
  last_seen_at: time,
  closed_at: time.nullable(),
  count: z.int().describe('number of times it was seen'),
  detail: z.unknown(),
});

export const listIncidentsOperation = defineOperation({
  name: 'incident.list',
  summary: 'List incidents, newest first. An incident is a problem that the service detected.',
  effect: 'read',
  needs: 'ledger',
  scope: 'incidents:ro',
  input: z.strictObject({
    kind: z.enum(incidentKinds).optional().describe('only this kind'),
    all: z.boolean().default(false).describe('include closed incidents'),
    limit: limitField,
    cursor: cursorField.optional(),
  }),
  output: z.object({
    incidents: z.array(incidentShape),
    next_cursor: z.string().nullable().describe('cursor of the next page; null at the end'),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/incidents' },
  cli: {
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile incident list', 'ductile incident list --all --kind failure_streak'],
    isDefault: true,
    watch: true,
    table: {
      rows: 'incidents',
      columns: [
        ['ID', 'incident_id'],
        ['KIND', 'kind'],
        ['KEY', 'key'],
        ['STATUS', 'status'],
        ['OPENED', 'opened_at'],
        ['LAST SEEN', 'last_seen_at', 'detail'],
        ['CLOSED', 'closed_at', 'detail'],
        ['COUNT', 'count'],
        ['WHAT', 'message'],
      ],
      empty:
        'No incident is open. `ductile doctor` lists everything that is wrong or needs a decision.',
    },
  },
  async run({ engine: { ledger } }, { kind, all, limit: rows, cursor: after }) {
    const epoch = await readEpoch(ledger);
    const incidents = await ledger.incidents.list({
      ...(kind === undefined ? {} : { kind }),
      ...(all ? {} : { isOpen: true }),
      ...(after === undefined ? {} : { beforeSeq: readSeqCursor('i', epoch, after) }),
      limit: rows,
    });
    const last = incidents.length === rows ? incidents.at(-1) : undefined;
    return {
      incidents: incidents.map(showIncident),
      next_cursor: last === undefined ? null : writeCursor('i', epoch, [last.seq]),
    };
  },
});

export const showIncidentOperation = defineOperation({
  name: 'incident.show',
  summary: 'Show an incident and its signals.',
  effect: 'read',
  needs: 'ledger',
  scope: 'incidents:ro',
  input: z.strictObject({
    id: z
      .string()
      .toLowerCase()
      .regex(
        /^[0-9a-f-]{4,36}$/,
        'must be the id of an incident, or at least its first 4 characters',
      )
      .describe('id of an incident, or the start of it'),
  }),
  output: incidentShape.extend({
    signals: z.array(signalShape).describe('its signals incident.opened and incident.closed'),
  }),
  errors: ['INCIDENT_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/incidents/:id' },
  cli: { positionals: ['id'], examples: ['ductile incident show 0199a1b2'] },
  async run({ engine: { ledger }, principal }, { id }) {
    const incident = await findIncidentById(ledger, id);
    const about = { subjectType: 'incident', subjectId: incident.id } as const;
    const signals = await ledger.signals.list({ ...about, order: 'oldest', limit: 2 });
    return {
      ...showIncident(incident),
      signals: signals.filter((signal) => isVisible(signal, principal)).map(showSignal),
    };
  },
});

export function findIncidentById(
  ledger: Context['engine']['ledger'],
  id: string,
): Promise<Incident> {
  return findById(id, {
    noun: 'incident',
    errorCode: 'INCIDENT_NOT_FOUND',
    findExact: () => ledger.incidents.find(id),
    listByPrefix: (page) => ledger.incidents.list(page),
  });
}

function showIncident(incident: Incident): z.output<typeof incidentShape> {
  const {
    routed: _,
    message,
    ...detail
  } = z
    .looseObject({ message: z.string().default('') })
    .catch({ message: '' })
    .parse(parseStoredJson(incident.detail));
  return showRow(incidentShape, incident, {
    incident_id: incident.id,
    status: incident.closedAt === null ? 'open' : 'closed',
    message,
    detail,
  });
}
