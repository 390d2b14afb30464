import { describe, expect, test } from 'vitest';
import { answerAccepted, decide, orders, type Facts, type Order } from '../../src/webhook/check.ts';

const well: Facts = {
  source: () => ({ ok: true }),
  isSmall: () => true,
  isOversize: () => false,
  isTooLarge: () => false,
  isMediaAccepted: () => true,
  hook: () => 'enabled',
  verdict: () => ({ kind: 'accepted', secretIndex: 0 }),
  rate: () => ({ ok: true }),
  body: () => ({ ok: true, payload: { a: 1 } }),
};

/** Everything that can be wrong, one by one. */
const wrong = {
  source: { source: () => ({ ok: false, retryAfterMs: 1500 }), isSmall: () => false },
  oversize: { isOversize: () => true, isTooLarge: () => true },
  size: { isTooLarge: () => true },
  media: {
    isMediaAccepted: () => false,
    body: () => ({ ok: false, fault: 'media_type_unsupported', message: '' }),
  },
  json: { body: () => ({ ok: false, fault: 'invalid_json', message: '' }) },
  object: { body: () => ({ ok: false, fault: 'body_must_be_object', message: '' }) },
  unknown: { hook: () => 'unknown' },
  disabled: { hook: () => 'disabled' },
  proof: { verdict: () => ({ kind: 'refused', reason: 'signature_wrong' }) },
  rate: { rate: () => ({ ok: false, retryAfterMs: 60_001 }) },
} as const satisfies Record<string, Partial<Facts>>;

type Wrong = keyof typeof wrong;

function answer(order: Order, ...faults: Wrong[]) {
  const facts = Object.assign({ ...well }, ...faults.map((fault) => wrong[fault])) as Facts;
  const decision = decide(order, 'managed', facts);
  return decision.kind === 'go'
    ? 'go'
    : `${decision.answer.status} ${JSON.stringify(decision.answer.body)}`;
}

const error = (status: number, word: string): string => `${status} {"error":"${word}"}`;

describe('document 4’s order', () => {
  const table: readonly (readonly [Wrong, string])[] = [
    ['source', error(429, 'rate_limited')],
    ['media', error(415, 'content_type_must_be_json')],
    ['size', error(413, 'payload_too_large')],
    ['json', error(400, 'invalid_json')],
    ['unknown', error(404, 'hook_not_found')],
    ['proof', error(401, 'unauthorized')],
    ['rate', error(429, 'rate_limited')],
  ];

  test.each(table)('W-21 %s is answered %s', (fault, expected) => {
    expect(answer('compat', fault)).toBe(expected);
  });

  test('W-21 of two things wrong the earlier one is answered', () => {
    for (const [index, [fault, expected]] of table.entries()) {
      for (const [later] of table.slice(index + 1)) {
        // The last named wins where both are about the body.
        expect(answer('compat', later, fault), `${fault} before ${later}`).toBe(expected);
      }
    }
    expect(answer('compat', 'object')).toBe(error(400, 'body_must_be_object'));
    expect(answer('compat', 'disabled', 'proof')).toBe(error(403, 'hook_disabled'));
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

  test.each(table)('W-26 %s is answered %s', (fault, expected) => {
    expect(answer('strict', fault)).toBe(expected);
  });

  test('W-26 of two things wrong the earlier one is answered', () => {
    for (const [index, [fault, expected]] of table.entries()) {
      for (const [later] of table.slice(index + 1)) {
        expect(answer('strict', later, fault), `${fault} before ${later}`).toBe(expected);
      }
    }
    expect(answer('strict', 'json')).toBe(error(400, 'invalid_json'));
    expect(answer('strict', 'object')).toBe(error(400, 'body_must_be_object'));
  });

  test('W-26 a hook that is off looks like none, with the right secret and with a wrong one', () => {
    expect(answer('strict', 'disabled')).toBe(answer('strict', 'unknown'));
    expect(answer('strict', 'disabled', 'proof')).toBe(answer('strict', 'unknown'));
  });

  test('W-26 nothing is parsed and no budget is spent before it is verified', () => {
    const untouchable = () => {
      throw new Error('asked too early');
    };
    const facts = { ...well, ...wrong.proof, rate: untouchable, body: untouchable };
    expect(decide('strict', 'managed', facts)).toMatchObject({ outcome: 'signature_wrong' });
  });

  test('a static endpoint answers a wrong signature with 403 and no more', () => {
    expect(decide('strict', 'static', { ...well, ...wrong.proof })).toEqual({
      kind: 'stop',
      answer: { status: 403, body: { error: 'forbidden' } },
      outcome: 'signature_wrong',
      isCharged: true,
    });
  });
});

describe('the verdict', () => {
  test('W-27, N-08 a 429 says when to come back', () => {
    expect(decide('strict', 'managed', { ...well, ...wrong.source })).toMatchObject({
      answer: { status: 429, retryAfterSeconds: 2 },
      outcome: 'source_limited',
      isCharged: false,
    });
    expect(decide('compat', 'managed', { ...well, ...wrong.rate })).toMatchObject({
      answer: { status: 429, retryAfterSeconds: 61 },
      outcome: 'hook_limited',
      isCharged: false,
    });
    const source = () => ({ ok: false, retryAfterMs: 0 }) as const;
    expect(decide('strict', 'managed', { ...well, ...wrong.source, source })).toMatchObject({
      answer: { retryAfterSeconds: 1 },
    });
  });

  test.each(orders)('W-28 a proven sender is accepted beside strangers, in %s order', (order) => {
    const flooded = { ...well, source: wrong.source.source };
    expect(decide(order, 'managed', flooded)).toMatchObject({ kind: 'go' });
    for (const fault of ['unknown', 'disabled', 'proof', 'oversize'] as const) {
      expect(decide(order, 'managed', { ...flooded, ...wrong[fault] }), fault).toMatchObject({
        answer: { status: 429, retryAfterSeconds: 2 },
        outcome: 'source_limited',
        isCharged: false,
      });
    }
    expect(decide(order, 'managed', { ...flooded, ...wrong.rate })).toMatchObject({
      outcome: 'hook_limited',
    });
  });

  test('its row says what really was wrong, whatever the response hides', () => {
    const outcomes: Readonly<Record<Wrong, string>> = {
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
    for (const order of orders) {
      for (const [fault, facts] of Object.entries(wrong)) {
        const decision = decide(order, 'managed', { ...well, ...facts });
        const outcome = outcomes[fault as Wrong];
        expect(decision, `${order} ${fault}`).toMatchObject({ kind: 'stop', outcome });
      }
    }
  });

  test('the problem of a body is reported beside the verdict', () => {
    const body = () => ({ ok: false, fault: 'invalid_json', message: 'is not JSON' }) as const;
    for (const order of orders) {
      expect(decide(order, 'managed', { ...well, body })).toMatchObject({
        answer: { status: 400, body: { error: 'invalid_json' } },
        outcome: 'invalid_json',
        detail: 'is not JSON',
      });
    }
  });

  test('W-28 only what was not verified is charged to its source', () => {
    const charged = (order: Order, fault: Wrong) =>
      decide(order, 'managed', { ...well, ...wrong[fault] });
    for (const fault of ['unknown', 'disabled', 'proof', 'oversize'] as const) {
      expect(charged('strict', fault), fault).toMatchObject({ isCharged: true });
    }
    expect(charged('strict', 'json')).toMatchObject({ isCharged: false });
    expect(charged('strict', 'size')).toMatchObject({ isCharged: false });
    expect(charged('compat', 'size')).toMatchObject({ isCharged: true });
    expect(charged('compat', 'json')).toMatchObject({ isCharged: true });
  });

  test('N-03 a challenge is answered and starts nothing', () => {
    const verdict = () => ({ kind: 'challenge', answer: 'x' }) as const;
    for (const order of ['strict', 'compat'] as const) {
      expect(decide(order, 'managed', { ...well, verdict })).toEqual({
        kind: 'stop',
        answer: { status: 200, body: { challenge: 'x' } },
        outcome: 'challenge',
        isCharged: false,
      });
    }
  });

  test('W-25 an accepted delivery continues with its payload', () => {
    const expected = {
      kind: 'go',
      accepted: { kind: 'accepted', secretIndex: 0 },
      payload: { a: 1 },
      event: undefined,
    };
    expect(decide('strict', 'managed', well)).toEqual(expected);
    expect(decide('compat', 'managed', well)).toEqual(expected);
  });

  test('W-11, W-25 what was committed is answered 202, and 200 the second time', () => {
    const body = { accepted: true, hook_id: 'h', signal_id: 's' };
    expect(answerAccepted('h', 's', false)).toEqual({ status: 202, body });
    expect(answerAccepted('h', 's', true)).toEqual({
      status: 200,
      body: { ...body, duplicate: true },
    });
  });
});
