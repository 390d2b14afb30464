/** The reads before a delivery is verified. */
import { expect, test } from 'vitest';
import { makeLogger } from '../../src/base/log.ts';
import { makeWebhookStore } from '../../src/webhook/store.service.ts';
import { ask } from '../support/direct.ts';
import { databases, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { makeContext } from '../support/context.ts';
import type { Vault } from '../../src/access/vault.ts';

test.each(databases)('the secret of a disabled webhook is not read, on %s', async (database) => {
  const place = await makePlace({ database, plugins: { p: { program: succeeds } } });
  const { engine, ledger } = await place.start();
  for (const [id, enabled] of [
    ['on', true],
    ['off', false],
  ] as const) {
    await ask(engine, 'webhook.create', { id, settings: { title: id, plugin: 'p', enabled } });
  }
  let reads = 0;
  const counting = {
    webhooks: { list: () => ledger.webhooks.list() },
    credentials: {
      find: (name: string) => {
        reads += 1;
        return ledger.credentials.find(name);
      },
    },
  };
  const log = makeLogger({
    level: 'error',
    format: 'json',
    destination: { write: () => undefined },
  });
  const vault: Partial<Vault> = { open: () => 'the token of all' };
  const store = makeWebhookStore(makeContext({ ledger: counting, vault: vault as Vault }), log);
  expect(await store.find('off')).toMatchObject({ webhook: { enabled: false }, secrets: [] });
  expect(reads).toBe(0);
  expect((await store.find('on'))?.secrets).toEqual(['the token of all']);
  expect(reads).toBe(1);
});
