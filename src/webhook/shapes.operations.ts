import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { formatDuration } from '../base/quantity.ts';
import { nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Job } from '../job/job.ts';
import type { DeliveryRow, WebhookRow } from './types.ts';
import type { Run } from '../pipeline/run/run.ts';
import { agentModes, webhookDefaults, defaultSignaturePrefix } from './target.ts';
import { quietActions } from '../schedule/window.ts';
import type { DeliveryOutcome } from './agent-outcome.ts';
import { webhookResponses } from './webhook.ts';
import { authModes, replayModes, timestampUnits } from './auth-settings.ts';
import { algorithms, encodings, keyEncodings } from './verify/mac.ts';
import type { Context } from '../operation/context.ts';
import { runShape } from '../pipeline/run/run.service.ts';
import { jobShape } from '../job/shapes.service.ts';

/** The additional keys of a webhook with a mode. */
const agentFields = {
  prompt_template: nonBlankText()
    .optional()
    .describe('for mode: the prompt, with {{field}} and {{webhook.event}}'),
  instruction: nonBlankText()
    .optional()
    .describe('for mode: text before the prompt, outside the safety boundary'),
  task_folder: nonBlankText()
    .optional()
    .describe('for cron_task: the folder that the agent works in'),
  provider: nonBlankText()
    .optional()
    .describe("for cron_task: claude, codex or a configured one (default: the agent's)"),
  model: nonBlankText().optional().describe("for cron_task: the model (default: the agent's)"),
  reasoning_effort: nonBlankText()
    .optional()
    .describe("for cron_task: the reasoning effort (default: the agent's)"),
  cli_parameters: z
    .array(z.string())
    .optional()
    .describe("for cron_task: more parameters of the agent's command line, a JSON array"),
  quiet_start: z
    .int()
    .min(0)
    .max(23)
    .optional()
    .describe('for cron_task: the first quiet hour (default: service.quiet_hours)'),
  quiet_end: z
    .int()
    .min(0)
    .max(23)
    .optional()
    .describe('for cron_task: the first hour that is not quiet (default: service.quiet_hours)'),
  quiet_action: z
    .enum(quietActions)
    .optional()
    .describe('for cron_task: skip or defer deliveries in quiet hours (default: skip)'),
  timezone: nonBlankText()
    .optional()
    .describe('for cron_task: the time zone of the quiet hours (default: service.timezone)'),
  dependency: nonBlankText()
    .optional()
    .describe('for cron_task: jobs with the same key run one after the other'),
};

/** The keys of `signed`. */
const signedShape = z.strictObject({
  header: nonBlankText().describe('the header with the signatures'),
  separator: z
    .string()
    .optional()
    .describe('text between the entries of the header (default: none)'),
  prefix: z.string().optional().describe('text before each signature, such as v1= (default: none)'),
  payload: z
    .string()
    .optional()
    .describe(
      'the signed text: {body}, {header:NAME}, {sig.NAME}, {url}, {method} (default: {body})',
    ),
  algorithm: z.enum(algorithms).optional().describe('algorithm of the HMAC (default: sha256)'),
  encoding: z.enum(encodings).optional().describe('encoding of the signature (default: hex)'),
  key: z.enum(keyEncodings).optional().describe('encoding of the secret (default: utf8)'),
  key_prefix: z
    .string()
    .optional()
    .describe('text before the secret, such as whsec_ (default: none)'),
  timestamp: z
    .string()
    .optional()
    .describe('the signed Unix time: {header:NAME} or {sig.NAME}; must be part of payload'),
  timestamp_unit: z.enum(timestampUnits).optional().describe('unit of the time (default: s)'),
  tolerance: nonBlankText().optional().describe('how far from now the time may be (default: 5m)'),
  id_field: nonBlankText().optional().describe('the field of the body with the delivery id'),
  unique_body: z
    .boolean()
    .optional()
    .describe('treat the same body always as the same delivery (default: false)'),
});

/** The keys of a webhook as users write them. Contradictions between them are found later. */
export const settingsFields = {
  title: nonBlankText().max(limits.webhookTitleCharsMax).optional().describe('display name'),
  description: z
    .string()
    .max(limits.webhookDescriptionCharsMax)
    .optional()
    .describe('longer description (default: empty)'),
  enabled: z.boolean().optional().describe('accept deliveries (default: true)'),
  plugin: nonBlankText().optional().describe('the plugin that gets a job for each delivery'),
  command: nonBlankText().optional().describe('the command of the plugin (default: handle)'),
  pipeline: nonBlankText().optional().describe('the pipeline that gets a run for each delivery'),
  signal: nonBlankText().optional().describe('the type of the signal, for routes and pipelines'),
  mode: z
    .enum(agentModes)
    .optional()
    .describe('start an agent: cron_task is a new session, wake a turn with each allowed user'),
  ...agentFields,
  auth_mode: z.enum(authModes).optional().describe('how deliveries are verified (default: bearer)'),
  hmac_header: nonBlankText().optional().describe('for hmac: the header with the signature'),
  hmac_algorithm: z
    .enum(algorithms)
    .optional()
    .describe('for hmac: the algorithm (default: sha256)'),
  hmac_encoding: z.enum(encodings).optional().describe('for hmac: the encoding (default: hex)'),
  hmac_sig_prefix: z
    .string()
    .optional()
    .describe('for hmac: text before the signature (default: the algorithm and =)'),
  hmac_sig_regex: z
    .string()
    .optional()
    .describe('for hmac: pattern that finds the signature in its header'),
  hmac_payload_prefix_regex: z
    .string()
    .optional()
    .describe('for hmac: pattern that finds the text that is signed before the body and a dot'),
  hmac_tolerance: nonBlankText()
    .optional()
    .describe(
      'for hmac_payload_prefix_regex: how far from now a signed Unix time may be; 0s to accept any (default: 5m)',
    ),
  signed: signedShape
    .optional()
    .describe('for signed: the signed text, and the header with the signature'),
  delivery_header: nonBlankText()
    .optional()
    .describe('the header with the id of a delivery (default: Idempotency-Key)'),
  replay: z
    .enum(replayModes)
    .optional()
    .describe(
      'strict refuses a body that arrives again under another delivery id (default: normal)',
    ),
  event_header: nonBlankText().optional().describe("the header with the sender's event type"),
  event_field: nonBlankText()
    .optional()
    .describe("the field of the body with the sender's event type, such as meta.kind"),
  headers: z
    .array(nonBlankText())
    .max(limits.webhookHeadersMax)
    .optional()
    .describe('headers that signals, plugins and pipelines get, separated by commas'),
  max_body_bytes: z
    .int()
    .min(1)
    .max(limits.webhookBodyBytesMax)
    .optional()
    .describe('largest body in bytes (default: 1048576)'),
  rate_limit_per_minute: z
    .int()
    .min(1)
    .max(limits.webhookRateMax)
    .optional()
    .describe('verified deliveries per minute (default: 600)'),
  respond: z
    .enum(webhookResponses)
    .optional()
    .describe('respond at once, or with the result of the job or run (default: accepted)'),
  respond_within: nonBlankText()
    .optional()
    .describe('for result: how long a sender waits (default: 10s)'),
};

/** Accepts the name of a setting, also in the spelling of its flag. */
export const settingName = z.preprocess(
  (name) => (typeof name === 'string' ? name.replaceAll('-', '_') : name),
  z.enum(Object.keys(settingsFields)),
);

export const webhookIdField = nonBlankText().describe('id of the webhook, as in /hooks/<id>');
export const webhookUrlField = z
  .string()
  .nullable()
  .describe('below webhooks.public_url, or else on the listener; null without both');

/** Returns the URL of a webhook. Null if there is neither a public URL nor a listener. */
export function formatWebhookUrl({ config, reach }: Context['engine'], id: string): string | null {
  const base = config.webhooks.publicUrl ?? reach.webhooks ?? reach.api;
  return base === undefined ? null : `${base}/hooks/${id}`;
}

const time = z.string().describe('UTC, ISO 8601 with milliseconds');

export const webhookShape = z.object({
  webhook_id: z.string(),
  id: z.string().meta({ deprecated: true }).describe('the older name of `webhook_id`'),
  path: z.string().describe('path on both listeners'),
  ...toNullable(settingsFields),
  title: z.string(),
  description: z.string(),
  enabled: z.boolean(),
  auth_mode: z.enum(authModes),
  max_body_bytes: z.int(),
  rate_limit_per_minute: z.int(),
  respond: z.enum(webhookResponses),
  replay: z.enum(replayModes),
  has_own_secret: z.boolean().describe('false if it uses the global token'),
  created_by: z.string(),
  created_at: time,
  updated_by: z.string(),
  updated_at: time,
  trigger_count: z.int().describe('number of verified deliveries, without duplicates'),
  last_triggered_at: time.nullable(),
  last_error: z.string().nullable().describe('why the last delivery was not accepted, or failed'),
  last_status: z
    .string()
    .nullable()
    .describe('status of the last job or run; for mode: success, pending, skipped:… or error:…'),
  last_detail: z.string().nullable().describe('for mode: details of the error'),
});

type NullableSettings<Fields extends Settings> = {
  [Key in keyof Fields]: z.ZodNullable<ReturnType<Fields[Key]['unwrap']>>;
};
type Settings = Readonly<Record<string, z.ZodOptional<z.ZodType>>>;

/** The same keys in a response. It has all of them, so missing ones are null. */
function toNullable<Fields extends Settings>(fields: Fields): NullableSettings<Fields> {
  const nullable = Object.entries(fields).map(([key, field]) => {
    const { description = '' } = field;
    return [key, field.unwrap().nullable().describe(description)] as const;
  });
  return Object.fromEntries(nullable) as unknown as NullableSettings<Fields>;
}

export function showWebhook(
  row: WebhookRow,
  outcome?: DeliveryOutcome,
): z.output<typeof webhookShape> {
  const settings = parseJson(row.settings) as StoredSettings;
  return {
    webhook_id: row.id,
    id: row.id,
    path: `/hooks/${row.id}`,
    ...nulls,
    ...defaultsOf(settings),
    ...settings,
    has_own_secret: row.sealed !== null,
    created_by: row.createdBy,
    created_at: row.createdAt,
    updated_by: row.updatedBy,
    updated_at: row.updatedAt,
    trigger_count: row.triggerCount,
    last_triggered_at: row.lastTriggeredAt,
    last_error: outcome?.error === undefined ? row.lastError : outcome.error,
    last_status: outcome?.status ?? null,
    last_detail: outcome?.detail ?? null,
  };
}

type Keys = keyof typeof settingsFields;
/** The settings as they are stored, without those that have no value. */
type StoredSettings = {
  readonly [Key in Keys]?: NonNullable<z.output<(typeof settingsFields)[Key]>>;
} & {
  readonly title: string;
};

const nulls = Object.fromEntries(Object.keys(settingsFields).map((key) => [key, null])) as {
  readonly [Key in Keys]: null;
};

/** Returns the defaults that apply to these settings. */
function defaultsOf(settings: StoredSettings) {
  const { plugin, mode, auth_mode: auth = 'bearer', respond } = settings;
  const { hmac_algorithm: algorithm = webhookDefaults.algorithm } = settings;
  const hmac = {
    hmac_algorithm: algorithm,
    hmac_encoding: webhookDefaults.encoding,
    hmac_sig_prefix: defaultSignaturePrefix(algorithm),
  };
  return {
    description: '',
    enabled: true,
    auth_mode: auth,
    max_body_bytes: webhookDefaults.maxBodyBytes,
    rate_limit_per_minute: webhookDefaults.ratePerMinute,
    respond: webhookDefaults.respond,
    replay: webhookDefaults.replay,
    ...(plugin === undefined ? {} : { command: webhookDefaults.command }),
    ...(respond === 'result' ? { respond_within: formatDuration(webhookDefaults.waitMs) } : {}),
    ...(auth === 'hmac' ? hmac : {}),
    ...(mode === 'cron_task'
      ? { cli_parameters: [], quiet_action: webhookDefaults.quietAction }
      : {}),
  };
}

export const verdicts = ['accepted', 'skipped', 'failed', 'refused'] as const;

export const deliveryShape = z.object({
  delivery_id: z.string(),
  webhook_id: z.string(),
  hook_id: z.string().meta({ deprecated: true }).describe('the older name of `webhook_id`'),
  verdict: z.enum(verdicts),
  status: z
    .string()
    .nullable()
    .describe('status of its job or run; for an agent: success, pending, skipped:… or error:…'),
  reason: z.string().nullable().describe('why it was not accepted; not visible to the sender'),
  sender_id: z.string().nullable().describe("the sender's id of the delivery"),
  source: z.string().describe('the address that it came from'),
  headers: z.array(z.array(z.string())).describe('headers without values that could be secret'),
  body_bytes: z.int(),
  signal_id: z.string().nullable(),
  duplicates: z.int().describe('number of duplicates, which started nothing'),
  received_at: time,
  test_by: z
    .string()
    .nullable()
    .describe('actor who sent it with `webhook test`; null for a real delivery'),
});

export function showDelivery(
  row: DeliveryRow,
  outcome?: DeliveryOutcome,
): z.output<typeof deliveryShape> {
  return showRow(deliveryShape, row, {
    delivery_id: row.id,
    hook_id: row.webhookId,
    status: outcome?.status ?? null,
    sender_id: row.deliveryId,
    headers: parseJson(row.headers) as string[][],
  });
}

/** The jobs and runs of a delivery, without the fields that need more rights than deliveries. */
export const deliveryWorkShape = {
  jobs: z
    .array(
      jobShape.pick({
        job_id: true,
        plugin: true,
        command: true,
        status: true,
        submitted_by: true,
      }),
    )
    .describe('jobs that its signal caused, replays included'),
  runs: z
    .array(runShape.pick({ run_id: true, pipeline: true, status: true, submitted_by: true }))
    .describe('runs that its signal started'),
};

export interface DeliveryWork {
  readonly jobs: readonly Job[];
  readonly runs: readonly Run[];
}

export function showDeliveryWork({
  jobs,
  runs,
}: DeliveryWork): z.output<z.ZodObject<typeof deliveryWorkShape>> {
  return {
    jobs: jobs.map((job) => ({
      job_id: job.id,
      plugin: job.plugin,
      command: job.command,
      status: job.status,
      submitted_by: job.submittedBy,
    })),
    runs: runs.map((run) => ({
      run_id: run.id,
      pipeline: run.pipeline,
      status: run.status,
      submitted_by: run.submittedBy,
    })),
  };
}
