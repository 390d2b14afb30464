import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { moment } from '../base/fields.ts';
import { compact, isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { warnUnhandled, type EmittedSignal, type SignalSubmission } from './emit.service.ts';
import type { Emission } from '../pipeline/run/types.ts';
import { webhookSource, type SignalDraft } from './signal.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { refuseDeniedFollowers } from '../operation/denied-commands.ts';
import { listDeniedCommands } from '../access/scopes.ts';

/** Programs send a subject as `{type, id}`, people as `type/id`. */
const subject = z.preprocess(joinSubject, z.string());

const reportInput = z.strictObject({
  type: z.string().min(1).describe('lowercase words separated by dots, such as order.paid'),
  source: z.string().min(1).describe('the sender, such as shop; not the name of a plugin'),
  subject: subject.optional().describe('the object that it is about: <type>/<id>'),
  data: z
    .record(z.string(), z.unknown())
    .default({})
    .describe('details of the event, without secrets'),
  metadata: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('`correlation_id`, `causation_id`, trace ids and the like'),
  occurred_at: moment().optional().describe('when it happened (default: now)'),
  dedupe_key: z
    .string()
    .optional()
    .describe('a key that each source can use once; duplicates are ignored'),
  source_event_id: z
    .string()
    .optional()
    .describe("the source's own id for it; duplicates of the same source are ignored"),
  rerun: z
    .boolean()
    .default(false)
    .describe('handle a duplicate again, as a replay does (default: false)'),
  visibility: z
    .enum(['internal', 'admin_only'])
    .default('internal')
    .describe('`admin_only`: shown only to administrators (default: internal)'),
});

const errors = [
  'FORBIDDEN',
  'HOPS_EXCEEDED',
  'INPUT_INVALID',
  'LEDGER_UNAVAILABLE',
  'LEDGER_UNCERTAIN',
  'PAYLOAD_TOO_LARGE',
  'STOPPING',
  'TENANT_LIMIT',
  'TENANT_SUSPENDED',
] as const;

const emittedShape = z.object({
  signal_id: z.string(),
  created: z.boolean().describe('false for a duplicate, which is not recorded again'),
  handlers: z.int().describe('number of jobs and runs that it started'),
  warning: z
    .string()
    .optional()
    .describe(
      'set if nothing here handles the signal, but the configuration of another live host does',
    ),
});

export const emitSignal = defineOperation({
  name: 'signal.emit',
  summary: 'Report an event as a signal. Matching routes and pipelines start.',
  effect: 'write',
  scope: 'events:rw',
  input: reportInput,
  nulls: 'absent',
  output: emittedShape,
  errors,
  http: {
    method: 'POST',
    path: '/signals',
    status: ({ created }) => (created === true ? 201 : 200),
    location: '/signals/:signal_id',
    statuses: [200, 201],
    acceptsCloudEvents: 'one',
  },
  cli: {
    positionals: ['type'],
    defaults: { source: 'cli' },
    examples: [
      `ductile signal emit order.paid --source shop --subject order/42 --data '{"amount": 12}'`,
      'ductile signal emit backup.done --dedupe-key 2026-11-15 --dry-run',
    ],
  },
  async run(context, input) {
    const submission = toSubmission(context, input);
    const { signals } = context.engine;
    await refuseWebhookName(submission, context);
    if (listDeniedCommands(context.principal.scopes).length > 0) {
      refuseDeniedFollowers(context, signals.draft(submission));
    }
    return await showEmitted(context, submission, await signals.emit(submission));
  },
  async plan(context, input) {
    const emission = await draftSignal(toSubmission(context, input), context);
    refuseDeniedFollowers(context, emission);
    const { signal, jobs, runs } = emission;
    const earlier = await findEarlier(context, signal);
    const first =
      earlier === undefined
        ? `A signal ${signal.type} of ${signal.source} will be recorded. This cannot be undone.`
        : `This is a duplicate of signal ${earlier}; nothing will be recorded.`;
    if (earlier !== undefined && !input.rerun) return [first];
    return [
      first,
      ...jobs.map(({ plugin, command }) => `A job of ${plugin}.${command} will be queued.`),
      ...runs.map(({ pipeline }) => `A run of ${pipeline} will start.`),
    ];
  },
});

export const emitSignals = defineOperation({
  name: 'signal.emit-many',
  summary: 'Report many events as signals: all of them are recorded, or none.',
  effect: 'write',
  scope: 'events:rw',
  input: z.strictObject({
    signals: z
      .array(reportInput)
      .min(1)
      .max(limits.signalsReportedMax)
      .describe('the signals, in order'),
  }),
  nulls: 'absent',
  output: z.object({
    signals: z.array(emittedShape).describe('the results, in the order of the signals'),
  }),
  errors,
  http: { method: 'POST', path: '/signals/batch', acceptsCloudEvents: 'many' },
  cli: { absent: 'a person reports one event; programs post many' },
  async run(context, { signals: reports }) {
    const { signals } = context.engine;
    const submissions = reports.map((report) => toOneOfMany(context, report));
    const isLimited = listDeniedCommands(context.principal.scopes).length > 0;
    for (const [index, submission] of submissions.entries()) {
      const emission = await atIndex(index, () => draftSignal(submission, context));
      if (isLimited) refuseDeniedFollowers(context, emission);
    }
    const emitted = await signals.emitAll(submissions);
    return {
      signals: await Promise.all(
        submissions.map((one, index) => showEmitted(context, one, emitted[index] ?? notEmitted)),
      ),
    };
  },
  async plan(context, { signals: reports }) {
    const emissions = await Promise.all(
      reports.map((report, index) =>
        atIndex(index, () => draftSignal(toOneOfMany(context, report), context)),
      ),
    );
    for (const emission of emissions) refuseDeniedFollowers(context, emission);
    const jobs = emissions.reduce((sum, one) => sum + one.jobs.length, 0);
    const runs = emissions.reduce((sum, one) => sum + one.runs.length, 0);
    return [
      `Up to ${emissions.length} signals will be recorded. Duplicates are ignored.`,
      `Up to ${jobs} jobs will be queued and up to ${runs} runs will start.`,
    ];
  },
});

const notEmitted: EmittedSignal = { signalId: '', created: false, handlers: 0 };

async function showEmitted(
  { engine: { ledger, processId } }: Context,
  { type }: SignalSubmission,
  { signalId, created, handlers }: EmittedSignal,
): Promise<z.output<typeof emittedShape>> {
  const isUnhandled = created && handlers === 0;
  const warning = isUnhandled ? await warnUnhandled(ledger, processId, type) : undefined;
  const shown = { signal_id: signalId, created, handlers };
  return warning === undefined ? shown : { ...shown, warning };
}

/** Drafts a signal with the jobs and runs that it would start. Throws if the report is invalid. */
async function draftSignal(submission: SignalSubmission, context: Context): Promise<Emission> {
  await refuseWebhookName(submission, context);
  return context.engine.signals.draft(submission);
}

/**
 * A webhook has verified what it delivers, and routes with `from` rely on that. A signal that was
 * reported under the id of a delivery would be mistaken for it.
 */
async function refuseWebhookName(
  { source }: SignalSubmission,
  { engine: { webhookIntake, config } }: Context,
): Promise<void> {
  const prefix = webhookSource('');
  if (!source.startsWith(prefix)) return;
  const id = source.slice(prefix.length);
  const isEndpoint = config.webhooks.endpoints.some(({ path }) => path === id);
  if (!isEndpoint && (await webhookIntake.store.find(id)) === undefined) return;
  throw new DuctileError('INPUT_INVALID', `source is ${source}, the name of a webhook`, {
    place: 'source',
    hint: 'Use another source. Only deliveries to the webhook may have its name.',
  });
}

/** Adds the index of a signal to its error. */
async function atIndex<T>(index: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    if (!(thrown instanceof DuctileError)) throw thrown;
    const { code, message, hint, place } = thrown;
    const where = [`signals[${index}]`, place ?? []].flat().join('.');
    throw new DuctileError(code, `signals[${index}]: ${message}`, { place: where, hint });
  }
}

/** Many signals share one request id, so only the source's own ids recognize duplicates. */
function toOneOfMany(context: Context, report: z.output<typeof reportInput>): SignalSubmission {
  return { ...toSubmission(context, report), id: undefined };
}

function toSubmission(
  { principal, subjectId, traceparent }: Context,
  input: z.output<typeof reportInput>,
): SignalSubmission {
  return {
    id: subjectId,
    actor: principal.actor,
    actorRole: principal.role,
    type: input.type,
    source: input.source,
    subject: input.subject,
    data: input.data as JsonObject,
    metadata: input.metadata as JsonObject | undefined,
    occurredAt: input.occurred_at,
    dedupeKey: input.dedupe_key,
    sourceEventId: input.source_event_id,
    visibility: input.visibility,
    rerun: input.rerun,
    traceparent,
    ...compact({ cause: principal.cause }),
  };
}

async function findEarlier(
  { engine: { ledger } }: Context,
  { source, dedupeKey, sourceEventId }: SignalDraft,
): Promise<string | undefined> {
  const filters = [
    ...(dedupeKey === undefined ? [] : [{ source, dedupeKey }]),
    ...(sourceEventId === undefined ? [] : [{ source, sourceEventId }]),
  ];
  for (const filter of filters) {
    const [found] = await ledger.signals.list({ ...filter, limit: 1 });
    if (found !== undefined) return found.id;
  }
  return undefined;
}

/** Other values are returned unchanged and refused later. */
function joinSubject(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { type, id, ...more } = value;
  const parts = [type, id].filter((part) => part !== undefined && part !== null);
  const isKnown = Object.keys(more).length === 0;
  return isKnown && parts.every((part) => typeof part === 'string') ? parts.join('/') : value;
}
