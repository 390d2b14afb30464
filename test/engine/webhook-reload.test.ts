/** A configuration whose webhooks could not be verified is not put in force. */
import { expect, test } from 'vitest';
import { ask } from '../support/direct.ts';
import { databases, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

const listen = '127.0.0.1:0';
const endpoint = { path: '/a', plugin: 'p', secret_ref: 'theirs', signature_header: 'X-Sig' };

test.each(databases)('a reload waits for the secrets of its endpoints, on %s', async (database) => {
  const plugins = { p: { program: succeeds } };
  const place = await makePlace({ database, plugins, webhooks: { listen } });
  const { engine } = await place.start();
  await place.vary({ webhooks: { listen, endpoints: [endpoint] } });
  const refused = await ask(engine, 'config.reload', {});
  expect(refused).toMatchObject({ status: 'failed', error: expect.stringContaining('theirs') });
  expect(engine.config.webhooks.endpoints).toEqual([]);
  await ask(engine, 'credential.set', { name: 'theirs' }, { secret: 'a-secret-of-theirs' });
  expect(await ask(engine, 'config.reload', {})).toMatchObject({ status: 'completed' });
  expect(engine.config.webhooks.endpoints).toMatchObject([{ path: '/a' }]);
});
