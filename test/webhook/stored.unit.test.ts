/** Webhooks that earlier versions stored, with settings that are refused today. */
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { makeWebhookStore } from '../../src/webhook/store.service.ts';
import { findWebhookFaults } from '../../src/webhook/check-entry.service.ts';
import type { WebhookRow } from '../../src/webhook/types.ts';
import { collectLog } from '../support/instance.ts';
import { makeContext } from '../support/context.ts';
import type { Vault } from '../../src/access/vault.ts';

function row(id: string, settings: JsonObject): WebhookRow {
  const at = '2026-11-18T00:00:00.000Z';
  return {
    id,
    settings: JSON.stringify({ title: 'T', ...settings }),
    sealed: null,
    createdBy: 'me',
    createdAt: at,
    updatedBy: 'me',
    updatedAt: at,
    triggerCount: 0,
    lastTriggeredAt: null,
    lastError: null,
  };
}

const task = { mode: 'cron_task', task_folder: 'x', prompt_template: 'See {{a b}}' };
const rows = [
  row('idle', { plugin: 'echo', rate_limit_per_minute: 0 }),
  row('braces', task),
  row('closed', { ...task, enabled: false }),
  row('sound', { plugin: 'echo', rate_limit_per_minute: 1 }),
];

test('a stored rate limit of 0 is a disabled webhook, and a bad placeholder stays as it is', async () => {
  const { log, records } = collectLog();
  const ledger = {
    webhooks: { list: () => Promise.resolve(rows) },
    credentials: { find: () => Promise.resolve(undefined) },
  };
  const vault: Partial<Vault> = { open: () => '' };
  const store = makeWebhookStore(makeContext({ ledger, vault: vault as Vault }), log);
  expect((await store.find('idle'))?.webhook.enabled).toBe(false);
  expect((await store.find('braces'))?.webhook.enabled).toBe(true);
  expect(records).toEqual([]);
});

test('doctor names what is wrong with stored webhooks that are enabled', () => {
  const agents = { catalog: { plugins: new Map() }, config: { webhooks: { agent: 'agent' } } };
  const faults = findWebhookFaults(rows, agents as never);
  expect([...faults].map(([id, { message }]) => [id, message])).toEqual([
    ['idle', expect.stringContaining('rate_limit_per_minute')],
    ['braces', expect.stringContaining('{{a b}}')],
  ]);
});
