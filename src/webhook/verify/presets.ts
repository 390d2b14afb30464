import { limits } from '../../base/limits.ts';
import type { PayloadPart, SignedScheme, SignedTimestamp } from './signed.ts';
import type { Scheme } from './verify.ts';

/** The schemes of well-known senders. */
export const presets = {
  github: signed({
    header: 'x-hub-signature-256',
    prefix: 'sha256=',
    idHeaders: ['x-github-delivery'],
    once: 'unnamed',
  }),
  gitlab: {
    kind: 'token',
    header: 'x-gitlab-token',
    lead: '',
    idHeaders: ['idempotency-key'],
    eventIdHeader: 'x-gitlab-event-uuid',
  },
  stripe: signed({
    header: 'stripe-signature',
    separator: ',',
    prefix: 'v1=',
    payload: [{ kind: 'entry', name: 't' }, dot(), { kind: 'body' }],
    timestamp: inSeconds({ kind: 'entry', name: 't' }),
    idField: 'id',
  }),
  slack: signed({
    header: 'x-slack-signature',
    prefix: 'v0=',
    payload: [
      { kind: 'text', text: 'v0:' },
      { kind: 'header', name: 'x-slack-request-timestamp' },
      { kind: 'text', text: ':' },
      { kind: 'body' },
    ],
    timestamp: inSeconds({ kind: 'header', name: 'x-slack-request-timestamp' }),
    idField: 'event_id',
    hasChallenge: true,
  }),
  // Newer deliveries have no X- in the names.
  shopify: { kind: 'any', of: [shopify('x-shopify-'), shopify('shopify-')] },
  twilio: {
    kind: 'twilio',
    header: 'x-twilio-signature',
    idHeaders: ['i-twilio-idempotency-token'],
    once: 'unnamed',
  },
  'standard-webhooks': { kind: 'any', of: [standard('webhook-'), standard('svix-')] },
  svix: { kind: 'any', of: [standard('svix-'), standard('webhook-')] },
} as const satisfies Readonly<Record<string, Scheme>>;

export type PresetName = keyof typeof presets;

export const presetNames = Object.keys(presets) as PresetName[];

function shopify(lead: string): SignedScheme {
  return signed({
    header: `${lead}hmac-sha256`,
    encoding: 'base64',
    idHeaders: [`${lead}webhook-id`, `${lead}event-id`],
    once: 'unnamed',
  });
}

function standard(lead: string): SignedScheme {
  const timestamp: PayloadPart = { kind: 'header', name: `${lead}timestamp` };
  return signed({
    header: `${lead}signature`,
    separator: ' ',
    prefix: 'v1,',
    encoding: 'base64',
    key: { encoding: 'base64', prefix: 'whsec_' },
    payload: [{ kind: 'header', name: `${lead}id` }, dot(), timestamp, dot(), { kind: 'body' }],
    timestamp: inSeconds(timestamp),
    idHeaders: [`${lead}id`],
  });
}

/** HMAC-SHA256 of the body in hexadecimal, unless overridden. */
function signed(differences: Partial<SignedScheme> & Pick<SignedScheme, 'header'>): SignedScheme {
  return {
    kind: 'signed',
    algorithm: 'sha256',
    encoding: 'hex',
    key: { encoding: 'utf8', prefix: '' },
    separator: '',
    prefix: '',
    payload: [{ kind: 'body' }],
    timestamp: undefined,
    idHeaders: [],
    idField: undefined,
    once: 'never',
    hasChallenge: false,
    ...differences,
  };
}

function inSeconds(part: PayloadPart): SignedTimestamp {
  return { part, unit: 's', toleranceMs: limits.webhookToleranceMs };
}

function dot(): PayloadPart {
  return { kind: 'text', text: '.' };
}
