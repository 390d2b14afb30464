import * as z from 'zod';
import { guardFirstKey, isSameSecret } from '../access/vault.service.ts';
import { purposes } from '../base/seal.ts';
import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import { findChildHops } from '../job/enqueue.service.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { textIn } from '../operation/request-directive.ts';
import { toRunPayload } from '../pipeline/language/pipeline.ts';
import { maskPayload } from '../signal/mask.ts';
import { openPayloads } from '../signal/replay.service.ts';
import { deliveryEventIn } from '../signal/signal.ts';
import { draftEmission } from './accept.service.ts';
import { findWebhookCommands } from './change.service.ts';
import { deliveryIdField, findDelivery } from './delivery.operations.ts';
import { BY_JOB, deliverTest, IN_PROCESS, requireSignable } from './delivery.service.ts';
import { webhookIdField } from './shapes.operations.ts';
import { describeMissingWebhook, findEndpoint } from './store.service.ts';
import { describeTarget } from './target.ts';
import type { DeliveryRow } from './types.ts';
import { secretFingerprint, webhookIdParam } from './webhook.directives.ts';
import type { KnownWebhook, Webhook } from './webhook.ts';

const common = {
  lasting: 'The work that it starts cannot be undone. Jobs that are still queued can be cancelled.',
  scope: 'webhooks:rw',
  role: 'admin',
  startsWork: true,
  sameness: () => 'each' as const,
} as const;

/** Handles a delivery's signal again, with the current target of its webhook. */
export const replayDeliveryDirective = defineDirective({
  ...common,
  type: 'webhook.replay',
  summary: 'Replay a delivery with the current target of its webhook.',
  params: z.strictObject({ delivery_id: z.string().min(1) }),
  target: ({ delivery_id: id }) => id,
  async findStarted(context, { delivery_id: id }) {
    const [delivery] = await context.ledger.deliveries.list({ id, limit: 1 });
    return await findWebhookCommands(context, delivery?.webhookId);
  },
  async plan(context, { delivery_id: id }) {
    const { webhook } = await findReplayable(id, context);
    return [`The delivery will be replayed and will start ${describeTarget(webhook.target)}.`];
  },
  async execute(context, { delivery_id: id }, { actor }) {
    const { ledger, vault, quota, commits } = context;
    const { delivery, webhook } = await findReplayable(id, context);
    const [signal] = await ledger.signals.list({ id: delivery.signalId ?? '', limit: 1 });
    if (signal === undefined) {
      throw new DuctileError('SIGNAL_NOT_FOUND', 'the signal of that delivery no longer exists');
    }
    const [exact] = await openPayloads([signal], ledger, vault);
    if (exact === undefined || 'refused' in exact) throw exact?.refused ?? new Error('no payload');
    const content = {
      webhookId: delivery.webhookId,
      title: webhook.title,
      target: webhook.target,
      sourceEventId: signal.sourceEventId ?? delivery.id,
      payload: toRunPayload(exact.payload),
      event: undefined,
      about: deliveryEventIn(signal),
      again: { signalId: signal.id, atMs: fromTimestamp(signal.occurredAt) },
      hops: Math.max(signal.hops, await findChildHops(actor, ledger)),
    };
    // The signal exists, so only the jobs and runs of this emission are written.
    const { emission } = await draftEmission(content, context.generation, maskPayload);
    const load = { jobs: emission.jobs.length + emission.runs.length, signals: 0 };
    const { events } = await quota.within(load, () =>
      ledger.signals.emit([{ ...emission, rerun: true }]),
    );
    commits.publish(events);
    return {
      signal_id: signal.id,
      jobs: emission.jobs.length,
      runs: emission.runs.length,
    };
  },
  operation: {
    effect: 'write',
    input: z.strictObject({ delivery_id: deliveryIdField }),
    output: z.object({
      signal_id: z.string(),
      jobs: z.int(),
      runs: z.int(),
      directive_id: directiveIdField,
    }),
    errors: [
      'AGENT_UNAVAILABLE',
      'COMMAND_NOT_FOUND',
      'DELIVERY_NOT_FOUND',
      'INPUT_INVALID',
      'LEDGER_UNAVAILABLE',
      'PAYLOAD_TOO_LARGE',
      'PIPELINE_NOT_FOUND',
      'PLUGIN_NOT_FOUND',
      'SIGNAL_MASKED',
      'SIGNAL_NOT_FOUND',
      'WEBHOOK_NOT_FOUND',
    ],
    http: { method: 'POST', path: '/webhooks/deliveries/:delivery_id/replay' },
    cli: { positionals: ['delivery_id'], examples: ['ductile webhook replay 0199a1b2'] },
    toParams: async (context, { delivery_id: id }) => ({
      delivery_id: (await findDelivery(context, id)).id,
    }),
  },
});

/**
 * Delivers a signed test through the listener and all checks. The delivery and its signal record who
 * requested the test.
 */
export const testWebhookDirective = defineDirective({
  ...common,
  type: 'webhook.test',
  summary: 'Send a test delivery to a webhook, signed like a delivery of its sender.',
  // The caller needs the response of the webhook.
  isImmediate: true,
  params: z.strictObject({ id: webhookIdParam }),
  // The payload arrives beside the params, because it can hold secrets.
  recorded: z.strictObject({ id: webhookIdParam, fingerprint: secretFingerprint }),
  target: ({ id }) => id,
  findStarted: (context, { id }) => findWebhookCommands(context, id),
  async resolve({ ledger, vault }, { id }, { secret, dryRun = false }) {
    if (secret === undefined || dryRun) return { id };
    await guardFirstKey(vault, ledger);
    return { id, fingerprint: vault.fingerprint(secret, purposes.webhook(id)) };
  },
  isSameSecret: ({ vault }, { id, fingerprint: print }, secret) =>
    isSameSecret(secret, purposes.webhook(id), print, vault),
  async plan(context, { id }) {
    const { webhook } = await findSignable(id, context);
    return [`A test will be delivered to ${id} and will start ${describeTarget(webhook.target)}.`];
  },
  async execute(context, { id }, { actor, directiveId, secret: payload, reveal }) {
    const known = await findSignable(id, context);
    const delivery = { known, payload, test: { actor, directiveId } };
    const { status, answer, via } = await deliverTest(delivery, context, context.services.webhooks);
    reveal({ answer });
    // The webhook's response may hold the result of a job, so it isn't recorded.
    const { signal_id: signalId = null } = answer;
    return { status, via, signal_id: signalId };
  },
  operation: {
    effect: 'write',
    input: z.strictObject({
      id: webhookIdField,
      payload: z
        .record(z.string(), z.unknown())
        .optional()
        .describe('payload of the test, as JSON (default: a unique payload)'),
    }),
    output: z.object({
      status: z.int().describe('the status that the sender would get'),
      answer: z.record(z.string(), z.unknown()),
      via: z
        .string()
        .describe(
          `address that the test was posted to; \`${IN_PROCESS}\` if no server listens, ` +
            `\`${BY_JOB}\` for a running job`,
        ),
      directive_id: directiveIdField,
    }),
    errors: [
      'CREDENTIAL_KEY_INVALID',
      'CREDENTIAL_KEY_MISSING',
      'FORBIDDEN',
      'INPUT_INVALID',
      'LEDGER_UNAVAILABLE',
      'SERVER_UNREACHABLE',
      'WEBHOOK_NOT_FOUND',
    ],
    // The webhook's response isn't stored: it may hold the result of a job.
    http: { method: 'POST', path: '/webhooks/:id/test', isSecret: true },
    cli: {
      positionals: ['id'],
      examples: [
        'ductile webhook test deploys',
        `ductile webhook test deploys --payload '{"n":1}'`,
      ],
      exitCode: ({ status }) => (Number(status) < 300 ? 0 : 1),
    },
    toParams: (_context, { id }) => ({ id }),
    toSecret: (_context, { payload }) =>
      payload === undefined ? undefined : JSON.stringify(payload),
    toOutput: (_context, { result: { status, answer, ...result } }) => ({
      status: Number(status),
      answer: isObject(answer) ? answer : {},
      via: textIn(result, 'via'),
    }),
  },
});

async function findSignable(
  id: string,
  { ledger, services: { webhookIntake } }: DirectiveContext,
): Promise<KnownWebhook> {
  const known = await webhookIntake.store.find(id);
  if (known === undefined) throw await describeMissingWebhook(id, ledger);
  requireSignable(known);
  return known;
}

/** Finds an accepted delivery and its webhook. Throws if either is missing. */
async function findReplayable(
  id: string,
  { ledger, config, services: { webhookIntake } }: DirectiveContext,
): Promise<{ delivery: DeliveryRow; webhook: Webhook }> {
  const [delivery] = await ledger.deliveries.list({ id, limit: 1 });
  if (delivery?.signalId === undefined || delivery.signalId === null) {
    const message = `no accepted delivery ${id} was found`;
    throw new DuctileError('DELIVERY_NOT_FOUND', message, { place: 'delivery_id' });
  }
  const { webhookId } = delivery;
  const known = await webhookIntake.store.find(webhookId);
  const webhook = known?.webhook ?? findEndpoint(config.webhooks, webhookId);
  if (webhook !== undefined) return { delivery, webhook };
  throw new DuctileError('WEBHOOK_NOT_FOUND', `the webhook ${webhookId} no longer exists`);
}
