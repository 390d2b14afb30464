import * as z from 'zod';
import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import { moment, nonBlankText as textField } from '../base/fields.ts';
import { compact } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { logLevels } from '../base/log-ring.ts';
import { parseDuration } from '../base/quantity.ts';
import { commandName, pluginName } from '../config/fields.ts';
import { defineOperation } from '../operation/define.ts';
import { ID_LENGTH } from '../operation/find-by-id.ts';
import { limitField } from '../operation/page.ts';
import {
  attemptStatuses,
  type Attempt,
  type AttemptFilter,
  type AttemptPageFilter,
  type AttemptPosition,
} from './attempt.ts';
import { submitters } from './job.ts';
import { requireJob, jobIdField } from './operations.ts';
import { attemptShape, showAttempt } from './shapes.service.ts';

const since = z
  .string()
  .refine((text) => toMoment(text, 0) !== undefined, 'must be a time or a duration')
  .describe(
    'start here, oldest first: a time such as 2026-11-15T08:00:00Z, or 15m for 15 minutes ago',
  );

/**
 * The end of a page: the time and id of the last attempt. `_before` continues with older attempts.
 */
const cursorPattern =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_([0-9a-f-]{36}-\d{1,9})(_before)?$/;

export const listLogs = defineOperation({
  name: 'job.logs',
  summary: 'List finished attempts with their output, newest first. With `since`, oldest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'jobs:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('only attempts of this plugin'),
    job_id: jobIdField.optional(),
    correlation_id: textField()
      .optional()
      .describe('only attempts of the chain that began with this job or signal'),
    command: commandName().optional().describe('only attempts of this command'),
    status: z.enum(attemptStatuses).optional().describe('only attempts with this status'),
    submitted_by: z
      .enum(submitters)
      .optional()
      .describe('only attempts of jobs submitted this way'),
    since: since.optional(),
    from: moment().optional().describe('only attempts that ended at this time or later'),
    to: moment().optional().describe('only attempts that ended before this time'),
    query: textField()
      .optional()
      .describe('only attempts whose error, stderr or result contains this text; case is ignored'),
    include_result: z
      .boolean()
      .default(true)
      .describe('include `result` (default: true); otherwise it is null'),
    cursor: z
      .string()
      .regex(cursorPattern, 'must be the `next_cursor` of a page')
      .optional()
      .describe('the `next_cursor` of a page, to continue after it in the same order'),
    limit: limitField,
  }),
  output: z.object({
    logs: z.array(attemptShape),
    next_cursor: z
      .string()
      .nullable()
      .describe(
        'the cursor of the next page; null after the oldest attempt, or if none ended since `since`. ' +
          `A page ends early, even empty, after ${limits.searchVisitMax} attempts that don't match`,
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
    examples: [
      'ductile job logs --plugin mail -v',
      'ductile job logs --job 0199a1b2',
      'ductile job logs --query refused --from 2026-11-15T00:00:00Z',
    ],
  },
  async run({ engine }, { job_id: id, limit: rows, include_result: hasResult, ...input }) {
    // Attempts can outlive their job's row, so a complete id isn't looked up.
    const jobId =
      id === undefined || id.length === ID_LENGTH ? id : (await requireJob({ engine }, id)).id;
    const { since: begin, cursor } = input;
    const { attempts, cut } = await engine.ledger.attempts.page({
      limit: rows,
      ...toAttemptFilter(input),
      ...compact({ jobId }),
      ...(begin === undefined ? {} : { since: await readMoment(engine.ledger, begin) }),
      ...readPosition(cursor),
    });
    const logs = attempts.map(showAttempt);
    return {
      logs: hasResult ? logs : logs.map((log) => ({ ...log, result: null })),
      next_cursor: cursorOf(attempts, cut, rows, input),
    };
  },
});

/** The filters of attempts, as they are in the input. */
interface AttemptFilterInput {
  readonly plugin?: string | undefined;
  readonly command?: string | undefined;
  readonly status?: Attempt['status'] | undefined;
  readonly submitted_by?: string | undefined;
  readonly correlation_id?: string | undefined;
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
  readonly query?: string | undefined;
}

/** Translates the filters to those of the ledger. */
function toAttemptFilter(input: AttemptFilterInput): Partial<AttemptPageFilter> {
  const { plugin, command, status, from, to, query } = input;
  const { submitted_by: submittedBy, correlation_id: correlationId } = input;
  const named = { plugin, command, status, submittedBy, correlationId, from, to, query };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined));
}

export const systemLogs = defineOperation({
  name: 'system.logs',
  summary: 'Show recent log lines of the service, oldest first.',
  effect: 'read',
  needs: 'server',
  isForRoot: true,
  scope: 'system:ro',
  input: z.strictObject({
    level: z.enum(logLevels).optional().describe('only this level and more severe ones'),
    component: z.string().max(100).optional().describe('only this part of the service'),
    since: since.optional(),
    after: z
      .int()
      .min(0)
      .optional()
      .describe('only lines after this number: the previous `last_seq`'),
    limit: limitField,
  }),
  output: z.object({
    process_id: z
      .string()
      .describe('the process that wrote the log; each process numbers its own lines'),
    last_seq: z.int().describe('the number of the last line read, even if a filter left it out'),
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
    const begin = from === undefined ? undefined : toMoment(from, Date.now());
    const logs = engine.ring.read({
      limit: rows,
      ...compact({ level, component, since: begin, after }),
    });
    const isCut = logs.length === rows && (after !== undefined || begin !== undefined);
    const last = isCut ? (logs.at(-1)?.seq ?? 0) : engine.ring.last;
    return Promise.resolve({ process_id: engine.processId, last_seq: last, logs });
  },
});

/** Relative times use the ledger's clock, because it wrote the times. */
async function readMoment(ledger: { now(): Promise<Timestamp> }, text: string): Promise<Timestamp> {
  return toMoment(text, fromTimestamp(await ledger.now())) ?? text;
}

function toMoment(text: string, nowMs: number): Timestamp | undefined {
  const duration = parseDuration(text);
  if (duration.ok) return toTimestamp(Math.max(0, nowMs - duration.ms));
  const ms = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?$/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? undefined : toTimestamp(ms);
}

/** Reads the position at which a page ended. */
function readPosition(cursor = ''): Pick<AttemptFilter, 'after' | 'before'> {
  const [, completedAt, logId, before] = cursorPattern.exec(cursor) ?? [];
  if (completedAt === undefined || logId === undefined) return {};
  const position = { completedAt, logId };
  return before === undefined ? { after: position } : { before: position };
}

/** Writes the cursor of the next page. A list with the oldest first never ends: more can follow. */
function cursorOf(
  attempts: readonly Attempt[],
  cut: AttemptPosition | undefined,
  rows: number,
  input: { readonly since?: string | undefined; readonly cursor?: string | undefined },
): string | null {
  const { cursor } = input;
  const last = attempts.at(-1);
  const end = cut ?? (last && { completedAt: last.completedAt, logId: last.id });
  const position = end && `${end.completedAt}_${end.logId}`;
  const isNewestFirst = cursor === undefined ? input.since === undefined : cursor.endsWith(BEFORE);
  if (!isNewestFirst) return position ?? cursor ?? null;
  const isOver = cut === undefined && attempts.length < rows;
  return position === undefined || isOver ? null : `${position}${BEFORE}`;
}

const BEFORE = '_before';
