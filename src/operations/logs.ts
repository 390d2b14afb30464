import * as z from 'zod';
import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import type { Timestamp } from '../base/clock.ts';
import { parseDuration } from '../base/duration.ts';
import { text as textField } from '../base/fields.ts';
import { logLevels } from '../base/log-ring.ts';
import { pluginName } from '../config/fields.ts';
import { attemptStatuses } from '../job/attempt.ts';
import type { Attempt } from '../job/attempt.ts';
import type { AttemptFilter } from '../ledger/ledger.ts';
import { defineOperation } from './define.ts';
import { ID_LENGTH } from './find.ts';
import { findJob, jobId, limit } from './job.ts';
import { attemptShape, showAttempt } from './shapes.ts';

const since = z
  .string()
  .refine((text) => toMoment(text, 0) !== undefined, 'must be a moment or a duration')
  .describe(
    'oldest first from here on: a moment such as 2026-11-15T08:00:00Z, or 15m for so long ago',
  );

/** Where a page ended: when the last attempt ended, and which it was; and that what came before is next. */
const cursorPattern =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_([0-9a-f-]{36}-\d{1,9})(_before)?$/;

export const listLogs = defineOperation({
  name: 'job.logs',
  summary: 'List finished attempts with what they said, newest first unless told where to begin.',
  effect: 'read',
  needs: 'ledger',
  scope: 'jobs:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('only attempts of this plugin'),
    job_id: jobId.optional(),
    correlation_id: textField()
      .optional()
      .describe('only attempts of the chain that began with this job or signal'),
    status: z.enum(attemptStatuses).optional().describe('only attempts that ended so'),
    since: since.optional(),
    cursor: z
      .string()
      .regex(cursorPattern, 'must be the `next_cursor` of a page')
      .optional()
      .describe('go on after a page, in its order: its `next_cursor`'),
    limit,
  }),
  output: z.object({
    logs: z.array(attemptShape),
    next_cursor: z
      .string()
      .nullable()
      .describe(
        'where the next page begins; null after the oldest, and where nothing has come since',
      ),
  }),
  errors: ['INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/job-logs' },
  cli: {
    flags: {
      plugin: '-p, --plugin <name>',
      job_id: '-j, --job <id>',
      correlation_id: '--correlation <id>',
      status: '-s, --status <state>',
      since: '--since <when>',
      cursor: '--cursor <cursor>',
      limit: '-n, --limit <count>',
    },
    examples: ['ductile job logs --plugin mail -v', 'ductile job logs --job 0199a1b2'],
  },
  async run({ engine }, { plugin, job_id: id, status, limit: rows, ...from }) {
    const { correlation_id: correlationId } = from;
    // An attempt may outlive its job's row, so a whole id is not looked up.
    const whole =
      id === undefined || id.length === ID_LENGTH ? id : (await findJob({ engine }, id)).id;
    const attempts = await engine.ledger.attemptsOf({
      limit: rows,
      ...(plugin === undefined ? {} : { plugin }),
      ...(whole === undefined ? {} : { jobId: whole }),
      ...(correlationId === undefined ? {} : { correlationId }),
      ...(status === undefined ? {} : { status }),
      ...(from.since === undefined ? {} : { since: await readMoment(engine.ledger, from.since) }),
      ...placeOf(from.cursor),
    });
    return { logs: attempts.map(showAttempt), next_cursor: cursorOf(attempts, rows, from) };
  },
});

export const systemLogs = defineOperation({
  name: 'system.logs',
  summary: 'Show what the server itself said lately, oldest first.',
  effect: 'read',
  needs: 'server',
  isForRoot: true,
  scope: 'system:ro',
  input: z.strictObject({
    level: z.enum(logLevels).optional().describe('only this level and worse'),
    component: z.string().max(100).optional().describe('only this part of the server'),
    since: since.optional(),
    after: z
      .int()
      .min(0)
      .optional()
      .describe('only lines after this one: the `last_seq` of before'),
    limit,
  }),
  output: z.object({
    process_id: z.string().describe('whose log it is; another one begins to count anew'),
    last_seq: z.int().describe('the number of the last line, shown or not'),
    logs: z.array(
      z.object({
        seq: z.int(),
        timestamp: z.string(),
        level: z.enum(logLevels),
        component: z.string(),
        message: z.string(),
        fields: z.record(z.string(), z.unknown()),
      }),
    ),
  }),
  errors: ['INPUT_INVALID'],
  http: { method: 'GET', path: '/system/logs' },
  cli: {
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile system logs --level warn', 'ductile logs --core --follow'],
  },
  run({ engine }, { since: from, level, component, after, limit: rows }) {
    const moment = from === undefined ? undefined : toMoment(from, Date.now());
    const logs = engine.ring.read({
      limit: rows,
      ...(level === undefined ? {} : { level }),
      ...(component === undefined ? {} : { component }),
      ...(moment === undefined ? {} : { since: moment }),
      ...(after === undefined ? {} : { after }),
    });
    const isCut = logs.length === rows && (after !== undefined || moment !== undefined);
    const last = isCut ? (logs.at(-1)?.seq ?? 0) : engine.ring.last;
    return Promise.resolve({ process_id: engine.processId, last_seq: last, logs });
  },
});

/** The ledger's own clock says what is so long ago, because it also wrote the times. */
async function readMoment(ledger: { now(): Promise<Timestamp> }, text: string): Promise<Timestamp> {
  return toMoment(text, fromTimestamp(await ledger.now())) ?? text;
}

function toMoment(text: string, nowMs: number): Timestamp | undefined {
  const duration = parseDuration(text);
  if (duration.ok) return toTimestamp(Math.max(0, nowMs - duration.ms));
  const ms = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?$/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? undefined : toTimestamp(ms);
}

function placeOf(cursor = ''): Pick<AttemptFilter, 'after' | 'before'> {
  const [, completedAt, logId, before] = cursorPattern.exec(cursor) ?? [];
  if (completedAt === undefined || logId === undefined) return {};
  const place = { completedAt, logId };
  return before === undefined ? { after: place } : { before: place };
}

/** Oldest first there may always be more to come; newest first there is an end. */
function cursorOf(
  attempts: readonly Attempt[],
  rows: number,
  from: { readonly since?: string | undefined; readonly cursor?: string | undefined },
): string | null {
  const { cursor } = from;
  const last = attempts.at(-1);
  const place = last === undefined ? undefined : `${last.completedAt}_${last.id}`;
  const isNewestFirst = cursor === undefined ? from.since === undefined : cursor.endsWith(BEFORE);
  if (!isNewestFirst) return place ?? cursor ?? null;
  return place === undefined || attempts.length < rows ? null : `${place}${BEFORE}`;
}

const BEFORE = '_before';
