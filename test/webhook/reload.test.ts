/** The effect of a reload on webhooks: their verification, and their targets. */
import { expect, test } from 'vitest';
import { ownerOf } from '../../src/operation/context.ts';
import { systemSelfcheck } from '../../src/insight/selfcheck.operations.ts';
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

test.each(databases)(
  'a reload names the webhooks whose target it takes away, on %s',
  async (database) => {
    const off = { program: succeeds, settings: { enabled: false } };
    const plugins = { p: { program: succeeds } };
    const pipelines = [{ name: 'care', steps: [{ id: 'look', uses: 'p.poll' }] }];
    const place = await makePlace({ database, plugins, pipelines });
    const { engine, records } = await place.start();
    const targets = {
      job: { plugin: 'p' },
      run: { pipeline: 'care' },
      sign: { signal: 'a.b' },
      off: { plugin: 'p', enabled: false },
    };
    for (const [id, target] of Object.entries(targets)) {
      await ask(engine, 'webhook.create', { id, settings: { title: id, ...target } });
    }
    await place.vary({ plugins: { p: off } });
    const messages = [
      'Webhook job will refuse every delivery: the plugin p is disabled.',
      'Webhook run will refuse every delivery: there is no pipeline care.',
    ];
    const { plan } = await ask(engine, 'config.reload', {}, { dryRun: true });
    expect(plan).toEqual(expect.arrayContaining(messages));
    const { result } = await ask(engine, 'config.reload', {});
    expect(result?.['changes']).toEqual(expect.arrayContaining(messages));
    expect(records).toContainEqual(expect.objectContaining({ level: 'warn', webhooks: messages }));
    const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' as const };
    expect(await systemSelfcheck.run(context, {})).toMatchObject({
      checks: expect.arrayContaining([
        {
          name: 'webhooks',
          status: 'warn',
          detail: expect.stringMatching(
            /^The webhook job refuses every delivery: the plugin p is disabled\. The webhook run refuses/,
          ),
        },
      ]),
    });
    await place.vary({ plugins: { p: off }, webhooks: { order: 'compat' } });
    const { result: again } = await ask(engine, 'config.reload', {});
    expect(JSON.stringify(again)).not.toContain('will refuse every delivery');
  },
);
