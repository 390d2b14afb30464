import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import {
  checkDelivery,
  checkOrders,
  createAcceptedResponse,
  type CheckOrder,
  type CheckResult,
  type WebhookKind,
} from '../../src/webhook/check.ts';
import { makeEndpointScheme } from '../../src/webhook/verify/hmac.ts';
import { presets } from '../../src/webhook/verify/presets.ts';
import { toWebhook, webhookEntrySchema } from '../../src/webhook/webhook.ts';

const SECRET = 'top-secret';
const NOW_MS = Date.UTC(2026, 0, 1);

/** A delivery in which everything is right; each fault changes one thing. */
interface DeliveryParts {
  readonly body: string;
  readonly contentType: string;
  readonly isOversize: boolean;
  readonly maxBodyBytes: number;
  readonly webhook: 'unknown' | 'disabled' | 'enabled';
  readonly secret: string;
  readonly source: { ok: true } | { ok: false; retryAfterMs: number };
  readonly rate: () => { ok: true } | { ok: false; retryAfterMs: number };
}

const well: DeliveryParts = {
  body: '{"a":1}',
  contentType: 'application/json',
  isOversize: false,
  maxBodyBytes: limits.webhookBodyBytesMax,
  webhook: 'enabled',
  secret: SECRET,
  source: { ok: true },
  rate: () => ({ ok: true }),
};

const limited = { source: { ok: false, retryAfterMs: 1500 } } as const;
const large = JSON.stringify({ a: 'x'.repeat(limits.webhookSmallBodyBytes) });

/** Everything that can be wrong, one by one. */
const wrong = {
  source: { ...limited, body: large },
  oversize: { isOversize: true },
  size: { maxBodyBytes: 1 },
  media: { contentType: 'text/plain' },
  json: { body: '{"a":' },
  object: { body: '[1]' },
  unknown: { webhook: 'unknown' },
  disabled: { webhook: 'disabled' },
  proof: { secret: 'another' },
  rate: { rate: () => ({ ok: false, retryAfterMs: 60_001 }) },
} as const satisfies Record<string, Partial<DeliveryParts>>;

type Wrong = keyof typeof wrong;

const { webhook } = toWebhook(
  webhookEntrySchema.parse({ id: 'h', title: 'h', plugin: 'p', token: SECRET }),
);

function check(
  order: CheckOrder,
  parts: Partial<DeliveryParts> = {},
  kind: WebhookKind = 'managed',
): CheckResult {
  const all = { ...well, ...parts };
  const rawBody = all.isOversize ? Buffer.alloc(0) : Buffer.from(all.body);
  const signature = createHmac('sha256', all.secret).update(rawBody).digest('hex');
  const known = {
    webhook: {
      ...webhook,
      auth: makeEndpointScheme('x-signature'),
      enabled: all.webhook === 'enabled',
      maxBodyBytes: all.maxBodyBytes,
    },
    secrets: [SECRET],
  };
  return checkDelivery(order, {
    kind,
    known: all.webhook === 'unknown' ? undefined : known,
    incoming: {
      source: '192.0.2.1',
      isOversize: all.isOversize,
      request: {
        method: 'POST',
        url: 'https://example.com/hooks/h',
        headers: [
          ['content-type', all.contentType],
          ['x-signature', `sha256=${signature}`],
        ],
        rawBody,
      },
    },
    limiter: { checkSource: () => all.source, spend: all.rate },
    nowMs: 0,
    wallMs: NOW_MS,
  });
}

function respond(order: CheckOrder, ...faults: Wrong[]): string {
  const result = check(order, Object.assign({}, ...faults.map((fault) => wrong[fault])));
  if (result.kind === 'accepted') return 'accepted';
  return `${result.response.status} ${JSON.stringify(result.response.body)}`;
}

const error = (status: number, word: string): string => `${status} {"error":"${word}"}`;

describe('the order of document 4', () => {
  const table: readonly (readonly [Wrong, string])[] = [
    ['source', error(429, 'rate_limited')],
    ['media', error(415, 'content_type_must_be_json')],
    ['size', error(413, 'payload_too_large')],
    ['json', error(400, 'invalid_json')],
    ['unknown', error(404, 'hook_not_found')],
    ['proof', error(401, 'unauthorized')],
    ['rate', error(429, 'rate_limited')],
  ];

  test.each(table)('W-21 a delivery with a wrong %s gets %s', (fault, expected) => {
    expect(respond('compat', fault)).toBe(expected);
  });

  test('W-21 a delivery with two faults gets the response for the earlier one', () => {
    for (const [index, [fault, expected]] of table.entries()) {
      for (const [later] of table.slice(index + 1)) {
        // The last one wins if both change the body. An unknown webhook has no size limit of its own.
        if (fault === 'size' && later === 'unknown') continue;
        expect(respond('compat', later, fault), `${fault} before ${later}`).toBe(expected);
      }
    }
    expect(respond('compat', 'oversize', 'unknown')).toBe(error(413, 'payload_too_large'));
    expect(respond('compat', 'object')).toBe(error(400, 'body_must_be_object'));
    expect(respond('compat', 'disabled', 'proof')).toBe(error(403, 'hook_disabled'));
  });
});

describe('the strict order', () => {
  const table: readonly (readonly [Wrong, string])[] = [
    ['source', error(429, 'rate_limited')],
    ['oversize', error(413, 'payload_too_large')],
    ['unknown', error(404, 'not_found')],
    ['proof', error(401, 'unauthorized')],
    ['rate', error(429, 'rate_limited')],
    ['size', error(413, 'payload_too_large')],
    ['media', error(415, 'media_type_unsupported')],
  ];

  test.each(table)('W-26 a delivery with a wrong %s gets %s', (fault, expected) => {
    expect(respond('strict', fault)).toBe(expected);
  });

  test('W-26 a delivery with two faults gets the response for the earlier one', () => {
    for (const [index, [fault, expected]] of table.entries()) {
      for (const [later] of table.slice(index + 1)) {
        expect(respond('strict', later, fault), `${fault} before ${later}`).toBe(expected);
      }
    }
    expect(respond('strict', 'json')).toBe(error(400, 'invalid_json'));
    expect(respond('strict', 'object')).toBe(error(400, 'body_must_be_object'));
  });

  test('W-26 a disabled webhook looks like none, with the right secret and with a wrong one', () => {
    expect(respond('strict', 'disabled')).toBe(respond('strict', 'unknown'));
    expect(respond('strict', 'disabled', 'proof')).toBe(respond('strict', 'unknown'));
  });

  test('W-26 no body is parsed and no budget is spent before the delivery is verified', () => {
    const rate = () => {
      throw new Error('the budget was spent too early');
    };
    for (const body of ['json', 'object', 'media', 'size'] as const) {
      const parts = { ...wrong[body], ...wrong.proof, rate };
      expect(check('strict', parts)).toMatchObject({ reason: 'signature_wrong' });
    }
  });

  test('a static endpoint responds to a wrong signature with 403 and no more', () => {
    expect(check('strict', wrong.proof, 'static')).toEqual({
      kind: 'rejected',
      response: { status: 403, body: { error: 'forbidden' } },
      reason: 'signature_wrong',
      isCharged: true,
    });
  });
});

describe('the result of a check', () => {
  test('W-27, N-08 a 429 says when to retry', () => {
    expect(check('strict', wrong.source)).toMatchObject({
      response: { status: 429, retryAfterSeconds: 2 },
      reason: 'source_limited',
      isCharged: false,
    });
    expect(check('compat', wrong.rate)).toMatchObject({
      response: { status: 429, retryAfterSeconds: 61 },
      reason: 'hook_limited',
      isCharged: false,
    });
    const source = { ok: false, retryAfterMs: 0 } as const;
    expect(check('strict', { ...wrong.source, source })).toMatchObject({
      response: { retryAfterSeconds: 1 },
    });
  });

  test.each(checkOrders)(
    'W-28 a verified sender is accepted beside strangers of the same source, in %s order',
    (order) => {
      expect(check(order, limited)).toMatchObject({ kind: 'accepted' });
      for (const fault of ['unknown', 'disabled', 'proof', 'oversize'] as const) {
        expect(check(order, { ...limited, ...wrong[fault] }), fault).toMatchObject({
          response: { status: 429, retryAfterSeconds: 2 },
          reason: 'source_limited',
          isCharged: false,
        });
      }
      expect(check(order, { ...limited, ...wrong.rate })).toMatchObject({
        reason: 'hook_limited',
      });
    },
  );

  test('the reason for the row of a delivery says what its response hides', () => {
    const reasons: Readonly<Record<Wrong, string>> = {
      source: 'source_limited',
      oversize: 'too_large',
      size: 'too_large',
      media: 'media_type_unsupported',
      json: 'invalid_json',
      object: 'body_must_be_object',
      unknown: 'hook_unknown',
      disabled: 'hook_disabled',
      proof: 'signature_wrong',
      rate: 'hook_limited',
    };
    for (const order of checkOrders) {
      for (const [fault, parts] of Object.entries(wrong)) {
        const reason = reasons[fault as Wrong];
        expect(check(order, parts), `${order} ${fault}`).toMatchObject({
          kind: 'rejected',
          reason,
        });
      }
    }
  });

  test('the detail of a body fault is reported beside its reason', () => {
    for (const order of checkOrders) {
      expect(check(order, wrong.json)).toMatchObject({
        response: { status: 400, body: { error: 'invalid_json' } },
        reason: 'invalid_json',
        detail: expect.stringContaining('the body ') as string,
      });
    }
  });

  test('W-28 only an unverified delivery is charged to its source', () => {
    for (const fault of ['unknown', 'disabled', 'proof', 'oversize'] as const) {
      expect(check('strict', wrong[fault]), fault).toMatchObject({ isCharged: true });
    }
    expect(check('strict', wrong.json)).toMatchObject({ isCharged: false });
    expect(check('strict', wrong.size)).toMatchObject({ isCharged: false });
    expect(check('compat', wrong.size)).toMatchObject({ isCharged: true });
    expect(check('compat', wrong.json)).toMatchObject({ isCharged: true });
  });

  test('N-03 a challenge gets its response and starts nothing', () => {
    const rawBody = Buffer.from('{"type":"url_verification","challenge":"x"}');
    const time = String(NOW_MS / 1000);
    const mac = createHmac('sha256', SECRET).update(`v0:${time}:`).update(rawBody).digest('hex');
    for (const order of checkOrders) {
      const result = checkDelivery(order, {
        kind: 'managed',
        known: { webhook: { ...webhook, auth: presets.slack }, secrets: [SECRET] },
        incoming: {
          source: '192.0.2.1',
          isOversize: false,
          request: {
            method: 'POST',
            url: 'https://example.com/hooks/h',
            headers: [
              ['content-type', 'application/json'],
              ['x-slack-request-timestamp', time],
              ['x-slack-signature', `v0=${mac}`],
            ],
            rawBody,
          },
        },
        limiter: { checkSource: () => ({ ok: true }), spend: () => ({ ok: true }) },
        nowMs: 0,
        wallMs: NOW_MS,
      });
      expect(result).toEqual({
        kind: 'rejected',
        response: { status: 200, body: { challenge: 'x' } },
        reason: 'challenge',
        isCharged: false,
      });
    }
  });

  test('W-25 an accepted delivery has its payload', () => {
    const expected = {
      kind: 'accepted',
      proof: { kind: 'accepted', secretIndex: 0 },
      payload: { a: 1 },
      event: undefined,
    };
    expect(check('strict')).toEqual(expected);
    expect(check('compat')).toEqual(expected);
  });

  test('W-11, W-25 a committed delivery gets 202, and 200 the second time', () => {
    const body = { accepted: true, hook_id: 'h', signal_id: 's' };
    expect(createAcceptedResponse('h', 's', false)).toEqual({ status: 202, body });
    expect(createAcceptedResponse('h', 's', true)).toEqual({
      status: 200,
      body: { ...body, duplicate: true },
    });
  });
});
