import * as z from 'zod';
import { moment, nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { splitSubject } from './envelope.ts';
import type { Signal, SignalFilter } from './signal.ts';
import type { Context } from '../operation/context.ts';
import {
  cursorField,
  limitField,
  readSeqCursor,
  readEpoch,
  writeCursor,
} from '../operation/page.ts';
import { defineOperation } from '../operation/define.ts';
import { findById } from '../operation/find-by-id.ts';
import { runShape, showRun } from '../pipeline/run/run.service.ts';
import { jobShape, showJob, showSignal, signalShape } from '../job/shapes.service.ts';
import { isVisible, toVisibilityFilter } from '../operation/visibility.ts';

export const signalIdField = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f-]{4,36}$/, 'must be the id of a signal, or at least its first 4 characters')
  .describe('the id of a signal, or a prefix that matches only one recent signal');

export const listSignalsOperation = defineOperation({
  name: 'signal.list',
  summary: 'List signals, newest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'events:ro',
  input: z.strictObject({
    type: nonBlankText().optional().describe('only signals of this type'),
    source: nonBlankText().optional().describe('only signals of this source, such as plugin:mail'),
    subject: nonBlankText()
      .optional()
      .describe('only signals about this: <type>/<id>, or an id alone'),
    correlation_id: nonBlankText().optional().describe('only signals of this chain'),
    from: moment().optional().describe('only signals of this time or later'),
    to: moment().optional().describe('only signals from before this time'),
    order: z
      .enum(['newest', 'oldest'])
      .default('newest')
      .describe('which signals come first (default: newest)'),
    limit: limitField,
    cursor: cursorField.optional(),
  }),
  output: z.object({
    signals: z.array(signalShape),
    next_cursor: z.string().nullable().describe('the cursor of the next page; null at the end'),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/signals' },
  cli: {
    flags: { type: '-t, --type <type>', limit: '-n, --limit <count>' },
    examples: [
      'ductile signal list --type job.dead',
      'ductile signal list --subject order/42 --from 2026-11-15T00:00:00Z',
    ],
    watch: true,
    table: {
      rows: 'signals',
      columns: [
        ['ID', 'signal_id'],
        ['TYPE', 'type'],
        ['SOURCE', 'source'],
        ['OCCURRED', 'occurred_at'],
        ['SUBJECT TYPE', 'subject_type', 'detail'],
        ['SUBJECT', 'subject_id'],
        ['CORRELATION', 'correlation_id', 'detail'],
        ['JOB', 'job_id', 'detail'],
      ],
      empty: 'There are no such signals.',
    },
  },
  async run({ engine: { ledger }, principal }, { cursor: after, limit: rows, order, ...rest }) {
    const epoch = await readEpoch(ledger);
    const kind = order === 'oldest' ? 'so' : 's';
    const { rows: signals, next } = await ledger.signals.page({
      ...toFilter(rest),
      ...toVisibilityFilter(principal),
      ...(after === undefined ? {} : { beforeSeq: readSeqCursor(kind, epoch, after) }),
      order,
      limit: rows,
    });
    return {
      signals: signals.map(showSignal),
      next_cursor: next === undefined ? null : writeCursor(kind, epoch, [next]),
    };
  },
});

export const showSignalOperation = defineOperation({
  name: 'signal.show',
  summary: 'Show a signal, and the jobs, runs and signals that it caused.',
  effect: 'read',
  needs: 'ledger',
  scope: 'events:ro',
  input: z.strictObject({ id: signalIdField }),
  output: signalShape.extend({
    jobs: z.array(jobShape).describe('the jobs that it caused, including replays'),
    runs: z.array(runShape).describe('the runs that it started'),
    signals: z.array(signalShape).describe('the signals that it caused directly'),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'SIGNAL_NOT_FOUND'],
  http: { method: 'GET', path: '/signals/:id', returnsCloudEvent: true },
  cli: {
    positionals: ['id'],
    examples: ['ductile signal show 0199a1b2', 'ductile signal show 0199a1b2 --json'],
  },
  async run(context, { id }) {
    const { ledger } = context.engine;
    const signal = await requireSignal(context, id);
    const page = { limit: limits.pageRowsMax };
    const [jobs, runs, signals] = await Promise.all([
      ledger.jobs.list({ sourceEventId: signal.id, order: 'oldest', ...page }),
      ledger.runs.list({ sourceEventId: signal.id, ...page }),
      ledger.signals.list({ causationId: signal.id, order: 'oldest', ...page }),
    ]);
    return {
      ...showSignal(signal),
      jobs: jobs.map(showJob),
      runs: runs.map(showRun),
      signals: signals.filter((one) => isVisible(one, context.principal)).map(showSignal),
    };
  },
});

/** The filters of signal lists, as callers write them. */
interface SignalFilterInput {
  readonly subject?: string | undefined;
  readonly correlation_id?: string | undefined;
  readonly type?: string | undefined;
  readonly source?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

function toFilter({ subject, correlation_id: correlationId, ...rest }: SignalFilterInput) {
  const filter = { ...rest, correlationId, ...splitSubject(subject) };
  const given = Object.entries(filter).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Partial<SignalFilter>;
}

/** Finds a signal by its id or a unique prefix, among those that the caller may see, or throws. */
export function requireSignal(
  { engine: { ledger }, principal }: Pick<Context, 'engine' | 'principal'>,
  id: string,
): Promise<Signal> {
  const seen = toVisibilityFilter(principal);
  return findById(id, {
    noun: 'signal',
    errorCode: 'SIGNAL_NOT_FOUND',
    findExact: async () => (await ledger.signals.list({ id, ...seen, limit: 1 }))[0],
    listByPrefix: (page) => ledger.signals.list({ ...page, ...seen }),
  });
}
