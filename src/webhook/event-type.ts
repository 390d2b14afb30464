import { compact, isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { maskText, isSecretName } from '../base/secrets.ts';
import type { PresetName } from './verify/presets.ts';
import { readHeader, type WebhookRequest } from './request.ts';
import * as z from 'zod';
import { nonBlankText } from '../base/fields.ts';
import { headerName } from './auth-settings.ts';
import type { ReportField } from './target.ts';
import { listProofHeaders, type Scheme } from './verify/verify.ts';

/** The location of the sender's event type, and the headers to pass on. */
export interface EventRules {
  readonly typeHeaders: readonly string[];
  /** Finds the event type in the body, if no header has it. */
  readonly typeIn: (payload: JsonObject) => Json | undefined;
  readonly headers: readonly string[];
}

/** The event type and headers of a delivery. Routes, pipelines, plugins and templates can use them. */
interface DeliveryEvent {
  /** As the sender writes it, such as `orders/create`. */
  readonly eventType: string | undefined;
  /** Lowercase words with dots between, such as `orders.create`. */
  readonly event: string | undefined;
  /** The configured headers, by their lowercase names. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface EventFields {
  readonly auth_mode?: string | undefined;
  readonly event_header?: string | undefined;
  readonly event_field?: string | undefined;
  readonly headers?: readonly string[] | undefined;
}

/** Settings of the webhook win over the defaults of its sender. */
export function toEventRules(fields: EventFields): EventRules {
  const { auth_mode: mode = '', event_header: header, event_field: field, headers = [] } = fields;
  if (header !== undefined || field !== undefined) {
    return {
      typeHeaders: header === undefined ? [] : [header],
      typeIn: field === undefined ? findNothing : (payload) => valueAt(payload, field),
      headers,
    };
  }
  const { typeHeaders = [], typeIn = findNothing } = known[mode as PresetName] ?? anySender;
  return { typeHeaders, typeIn, headers };
}

export function readDeliveryEvent(
  rules: EventRules,
  request: WebhookRequest,
  payload: JsonObject,
  cloudEvent: JsonObject | undefined,
): DeliveryEvent {
  const type = cloudEvent?.['type'] ?? typeInHeaders(rules, request) ?? rules.typeIn(payload);
  const eventType =
    typeof type === 'string' && type.trim() !== ''
      ? maskText(type.trim().slice(0, limits.webhookEventTypeChars))
      : undefined;
  return {
    eventType,
    event: eventType === undefined ? undefined : normalizeEvent(eventType),
    headers: Object.fromEntries(rules.headers.flatMap((name) => readPassedHeader(request, name))),
  };
}

/**
 * Describes the event of a delivery for its signal. Undefined if it has neither an event type nor
 * headers to pass on.
 */
export function describeDeliveryEvent(
  { id, eventRules }: { readonly id: string; readonly eventRules: EventRules },
  request: WebhookRequest,
  { payload, event: cloudEvent, deliveryId }: VerifiedContent,
): JsonObject | undefined {
  const { eventType, event, headers } = readDeliveryEvent(eventRules, request, payload, cloudEvent);
  const hasHeaders = Object.keys(headers).length > 0;
  if (eventType === undefined && !hasHeaders) return undefined;
  return {
    id,
    ...compact({ event, event_type: eventType }),
    ...(deliveryId === null ? {} : { delivery_id: deliveryId }),
    ...(hasHeaders ? { headers } : {}),
  };
}

/** The content of a verified delivery, with the sender's id for it. */
interface VerifiedContent {
  readonly payload: JsonObject;
  readonly event: JsonObject | undefined;
  readonly deliveryId: string | null;
}

/**
 * `orders/create`, `repo:push` and `Push Hook` become `orders.create`, `repo.push` and `push_hook`.
 * Undefined if nothing is left.
 */
export function normalizeEvent(eventType: string): string | undefined {
  const words = eventType
    .toLowerCase()
    .split(/[./:]+/)
    .map((word) => word.replaceAll(/[^a-z0-9_-]+/g, '_').replaceAll(/^_+|_+$/g, ''))
    .filter((word) => word !== '');
  return words.length === 0 ? undefined : words.join('.');
}

type KnownSender = Partial<Pick<EventRules, 'typeHeaders' | 'typeIn'>>;

const byType: KnownSender = { typeIn: ({ type }) => type };

const known: Readonly<Partial<Record<PresetName, KnownSender>>> = {
  github: { typeHeaders: ['x-github-event'] },
  gitlab: { typeHeaders: ['x-gitlab-event'] },
  shopify: { typeHeaders: ['x-shopify-topic', 'shopify-topic'] },
  stripe: byType,
  'standard-webhooks': byType,
  svix: byType,
  slack: { typeIn: findSlackType },
  twilio: { typeIn: findTwilioType },
};

/** Senders without a preset, and endpoints of the configuration. */
const anySender: KnownSender = {
  typeHeaders: [
    'x-gitea-event',
    'x-forgejo-event',
    'x-gogs-event',
    'x-github-event',
    'x-gitlab-event',
    'x-event-key',
    'x-shopify-topic',
    'shopify-topic',
    'x-wc-webhook-topic',
    'linear-event',
  ],
};

function findNothing(): undefined {
  return undefined;
}

/** Events are wrapped, interactions aren't, and slash commands have no type. */
function findSlackType({ type, event, command }: JsonObject): Json | undefined {
  if (type === 'event_callback' && isObject(event)) return event['type'];
  return type ?? (command === undefined ? undefined : 'slash_command');
}

function findTwilioType(payload: JsonObject): Json | undefined {
  const { EventType: type, MessageStatus, SmsStatus, CallStatus: call } = payload;
  const message = MessageStatus ?? SmsStatus;
  if (typeof type === 'string') return type;
  if (typeof message === 'string') return `message.${message}`;
  return typeof call === 'string' ? `call.${call}` : undefined;
}

/** Ignores a repeated header: other programs may have read the other value. */
function typeInHeaders({ typeHeaders }: EventRules, request: WebhookRequest): string | undefined {
  for (const name of typeHeaders) {
    const header = readHeader(request, name);
    if (header.ok && header.value.trim() !== '') return header.value;
  }
  return undefined;
}

function valueAt(payload: JsonObject, path: string): Json | undefined {
  let value: Json | undefined = payload;
  for (const word of path.split('.')) {
    value = isObject(value) && Object.hasOwn(value, word) ? value[word] : undefined;
  }
  return value;
}

function readPassedHeader({ headers }: WebhookRequest, name: string): [string, string][] {
  const values = headers.filter(([key]) => key === name).map(([, value]) => value);
  if (values.length === 0) return [];
  return [[name, maskText(values.join(', ').slice(0, limits.webhookHeaderKeptChars))]];
}

/** The keys that select headers for the payload. Webhooks and endpoints share them. */
export const eventFields = {
  event_header: headerName.optional(),
  event_field: nonBlankText()
    .max(limits.webhookEventTypeChars)
    .regex(/^[^\s.]+(\.[^\s.]+)*$/, 'must be the name of a field, or names with dots between them')
    .optional(),
  headers: z.array(headerName).max(limits.webhookHeadersMax).optional(),
};

type EventSettings = z.output<z.ZodObject<typeof eventFields>>;

/** Headers that are passed on are stored and shown, so they must not contain a proof. */
export function checkEventFields(
  { event_header: header, event_field: field, headers = [] }: EventSettings,
  scheme: Scheme,
  report: ReportField,
): void {
  if (header !== undefined && field !== undefined) {
    report('event_field', 'and event_header exclude each other', 'Keep one of them.');
  }
  const proof = listProofHeaders(scheme);
  const isProof = (name: string): boolean =>
    proof.has(name) || PROOF.test(name) || isSecretName(name);
  const hint = 'Name headers without a secret or a signature.';
  if (header !== undefined && isProof(header)) {
    report('event_header', `is ${header}, which authenticates the sender`, hint);
  }
  const secret = headers.find(isProof);
  if (secret !== undefined) {
    report('headers', `has ${secret}, which authenticates the sender`, hint);
  }
}

const PROOF = /auth|cookie|signature|hmac|token|secret/;
