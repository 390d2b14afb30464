import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { createWebhookLimiter, type WebhookLimiter } from '../../src/webhook/rate-limit.ts';

const MINUTE = 60_000;
const failuresMax = limits.webhookFailuresMax;

function fail(limiter: WebhookLimiter, source: string, times: number, nowMs = 0): void {
  for (let time = 0; time < times; time += 1) limiter.chargeSource(source, nowMs);
}

describe('a webhook’s budget', () => {
  test('W-03 is so many in a minute, and one more after it', () => {
    const limiter = createWebhookLimiter();
    for (const at of [0, 10, 20]) expect(limiter.spend('h', 3, at)).toEqual({ ok: true });
    expect(limiter.spend('h', 3, 30)).toEqual({ ok: false, retryAfterMs: MINUTE + 1 - 30 });
    expect(limiter.spend('h', 3, MINUTE)).toMatchObject({ ok: false });
    expect(limiter.spend('h', 3, MINUTE + 1)).toEqual({ ok: true });
    expect(limiter.spend('h', 3, MINUTE + 2)).toEqual({ ok: false, retryAfterMs: 9 });
  });

  test('W-03 is not spent by what is refused', () => {
    const limiter = createWebhookLimiter();
    limiter.spend('h', 1, 0);
    for (let at = 1; at < MINUTE; at += 1000) expect(limiter.spend('h', 1, at).ok).toBe(false);
    expect(limiter.spend('h', 1, MINUTE + 1)).toEqual({ ok: true });
  });

  test('W-03 of nothing refuses everything, and is clear after a reset', () => {
    const limiter = createWebhookLimiter();
    expect(limiter.spend('h', 0, 0)).toMatchObject({ ok: false });
    expect(limiter.spend('h', 0, 10 * MINUTE)).toMatchObject({ ok: false });
    limiter.spend('h', 1, 0);
    limiter.reset();
    expect(limiter.spend('h', 1, 0)).toEqual({ ok: true });
  });

  test('that was lowered is open again when enough has passed', () => {
    const limiter = createWebhookLimiter();
    for (const at of [0, 10, 20, 30]) limiter.spend('h', 4, at);
    expect(limiter.spend('h', 2, 40)).toEqual({ ok: false, retryAfterMs: 20 + MINUTE + 1 - 40 });
    expect(limiter.spend('h', 2, 20 + MINUTE + 1)).toEqual({ ok: true });
  });

  test('W-28 is its own', () => {
    const limiter = createWebhookLimiter();
    limiter.spend('a', 1, 0);
    expect(limiter.spend('a', 1, 1).ok).toBe(false);
    expect(limiter.spend('b', 1, 1)).toEqual({ ok: true });
  });

  test('stays exact over many windows', () => {
    const limiter = createWebhookLimiter();
    let passed = 0;
    for (let at = 0; at < 10 * MINUTE; at += 10) if (limiter.spend('h', 100, at).ok) passed += 1;
    expect(passed).toBe(1000);
  });
});

test('a released token of the budget can be spent again', () => {
  const limiter = createWebhookLimiter();
  limiter.refund('h');
  expect(limiter.spend('h', 1, 0)).toEqual({ ok: true });
  expect(limiter.spend('h', 1, 1)).toMatchObject({ ok: false });
  limiter.refund('h');
  limiter.refund('h');
  expect(limiter.spend('h', 1, 2)).toEqual({ ok: true });
  expect(limiter.spend('h', 1, 3)).toMatchObject({ ok: false });
});

describe('a source', () => {
  test('W-28 that fails too often is shut out for a while, and takes nothing from a hook', () => {
    const limiter = createWebhookLimiter();
    fail(limiter, 'evil', failuresMax - 1);
    expect(limiter.checkSource('evil', 0)).toEqual({ ok: true });
    fail(limiter, 'evil', 50);
    expect(limiter.checkSource('evil', 1)).toEqual({ ok: false, retryAfterMs: MINUTE });
    expect(limiter.checkSource('good', 1)).toEqual({ ok: true });
    expect(limiter.spend('h', 1, 1)).toEqual({ ok: true });
    expect(limiter.checkSource('evil', MINUTE + 1)).toEqual({ ok: true });
  });

  test('is forgotten when many others came, the longest quiet first', () => {
    const limiter = createWebhookLimiter();
    fail(limiter, 'first', failuresMax);
    fail(limiter, 'second', failuresMax);
    for (let other = 0; other < limits.webhookWindowsMax - 1; other += 1) {
      limiter.chargeSource(`s${other}`, 0);
    }
    expect(limiter.checkSource('first', 0)).toEqual({ ok: true });
    expect(limiter.checkSource('second', 0)).toMatchObject({ ok: false });
  });
});
