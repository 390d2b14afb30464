import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { incidentKinds } from './findings/all.ts';
import type { Incident } from './types.ts';
import { readSeqCursor, readEpoch, writeCursor } from '../operation/page.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective } from '../operation/request-directive.ts';
import { findById } from '../operation/find-by-id.ts';
import { cursorField, limitField } from '../operation/page.ts';
import { showSignal, signalShape } from '../job/shapes.service.ts';
import { isVisible } from '../operation/visibility.ts';

const time = z.string().describe('UTC, ISO 8601 with milliseconds');

const incidentShape = z.object({
  incident_id: z.string(),
  kind: z.enum(incidentKinds),
  key: z.string().describe('what it is about, such as mail/handle'),
  status: z.enum(['open', 'closed']),
  message: z.string(),
  opened_at: time,
  last_seen_at: time,
  closed_at: time.nullable(),
  count: z.int().describe('how often it was seen'),
  detail: z.unknown(),
});

export const listIncidentsOperation = defineOperation({
  name: 'incident.list',
  summary: 'List incidents, newest first: what the service noticed, since when and until when.',
  effect: 'read',
  needs: 'ledger',
  scope: 'incidents:ro',
  input: z.strictObject({
    kind: z.enum(incidentKinds).optional().describe('only this kind'),
    all: z.boolean().default(false).describe('also those that are over'),
    limit: limitField,
    cursor: cursorField.optional(),
  }),
  output: z.object({
    incidents: z.array(incidentShape),
    next_cursor: z.string().nullable().describe('of the next page; null at the end'),
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
  summary: 'Show one incident, and what was told of it.',
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
      .describe('the id of an incident, or its beginning'),
  }),
  output: incidentShape.extend({
    signals: z.array(signalShape).describe('incident.opened and incident.closed'),
  }),
  errors: ['INCIDENT_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/incidents/:id' },
  cli: { positionals: ['id'], examples: ['ductile incident show 0199a1b2'] },
  async run({ engine: { ledger }, principal }, { id }) {
    const incident = await findIncident(ledger, id);
    const about = { subjectType: 'incident', subjectId: incident.id } as const;
    const signals = await ledger.signals.list({ ...about, order: 'oldest', limit: 2 });
    return {
      ...showIncident(incident),
      signals: signals.filter((signal) => isVisible(signal, principal)).map(showSignal),
    };
  },
});

export const acknowledgeIncident = defineOperation({
  name: 'incident.acknowledge',
  summary: 'Stop reporting the dead jobs or halted runs of an incident that ended before now.',
  effect: 'write',
  scope: 'incidents:rw',
  input: z.strictObject({
    id: z
      .string()
      .min(4)
      .max(limits.findingIdCharsMax)
      .describe('the id of an incident or its beginning, or of a finding: job_dead:mail/handle'),
    reason: z
      .string()
      .min(1)
      .max(limits.decisionReasonCharsMax)
      .optional()
      .describe('for the record'),
  }),
  output: z.object({
    finding: z.string().describe('the kind and the key of what is no longer reported'),
    directive_id: z.string().describe('the record of this change'),
  }),
  errors: [...directErrors, 'INCIDENT_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/incidents/:id/acknowledge' },
  cli: {
    positionals: ['id'],
    examples: [
      'ductile incident acknowledge 0199a1b2 --reason "sent by hand"',
      'ductile incident acknowledge job_dead:mail/handle',
    ],
  },
  async run(context, input) {
    const params = await toAcknowledgeParams(context, input);
    const { id } = await direct(context, 'incident.acknowledge', params);
    return { finding: params.finding, directive_id: id };
  },
  plan: async (context, input) =>
    planDirective(context, 'incident.acknowledge', await toAcknowledgeParams(context, input)),
});

async function toAcknowledgeParams(
  { engine: { ledger } }: Context,
  { id, reason }: { readonly id: string; readonly reason?: string | undefined },
): Promise<{ readonly finding: string }> {
  const why = reason === undefined ? {} : { reason };
  if (id.includes(':')) return { finding: id, ...why };
  const { kind, key } = await findIncident(ledger, id.toLowerCase());
  return { finding: `${kind}:${key}`, ...why };
}

function findIncident(ledger: Context['engine']['ledger'], id: string): Promise<Incident> {
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
