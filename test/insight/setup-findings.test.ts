/** Plugins that could not be set up, and webhooks without a target, are findings of doctor. */
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import { systemDoctor } from '../../src/insight/doctor.operations.ts';
import { findingsShape } from '../../src/insight/findings.service.ts';
import { explainWhy } from '../../src/insight/why/why.operations.ts';
import { ask } from '../support/direct.ts';
import { eventually, makePlace, type TestInstance } from '../support/instance.ts';
import { shell, succeeds } from '../support/plugin-program.ts';

async function findFindings({ engine }: TestInstance) {
  const context: Context = { engine, principal: ownerOf('cli:test'), submittedBy: 'cli' };
  return findingsShape.parse(await systemDoctor.run(context, {})).findings;
}

test('a plugin whose init failed is found, with the command that runs it again', async () => {
  const program = shell(`cat > /dev/null; echo '{"status":"error","error":"no mailbox"}'`);
  const settings = { retry: { max_attempts: 1 } };
  const mail = { program, settings, commands: '{poll: {}, init: {}}' };
  const instance = await (await makePlace({ plugins: { mail } })).start();
  const found = await eventually('doctor finds it', async () =>
    (await findFindings(instance)).find(({ id }) => id === 'plugin_not_set_up:mail'),
  );
  expect(found).toMatchObject({
    severity: 'error',
    evidence: expect.stringContaining('no mailbox') as string,
    commands: ['ductile plugin init mail'],
  });
});

test('a webhook whose plugin is gone is found, and one with a target is not', async () => {
  const place = await makePlace({
    plugins: { mail: { program: succeeds }, other: { program: succeeds } },
  });
  const instance = await place.start();
  for (const plugin of ['mail', 'other']) {
    await ask(instance.engine, 'webhook.create', {
      id: plugin,
      settings: { title: plugin, plugin },
    });
  }
  expect(await findWebhooks(instance)).toEqual([]);
  await instance.close();
  const changed = await place.vary({ plugins: { other: { program: succeeds } } });
  await rm(`${place.directory}/plugins/mail`, { recursive: true });
  expect(await findWebhooks(await changed.start())).toEqual(['webhook_stranded:mail']);
});

test('why explains a finding that is not on the ledger, by its id', async () => {
  const place = await makePlace({ plugins: { mail: { program: succeeds } } });
  const { engine } = await place.start();
  const context: Context = { engine, principal: ownerOf('cli:test'), submittedBy: 'cli' };
  const id = `integrity:${place.directory}`;
  expect(await explainWhy.run(context, { kind: 'any', id })).toMatchObject({
    id,
    commands: expect.arrayContaining(['ductile config lock']) as string[],
  });
});

async function findWebhooks(instance: TestInstance): Promise<string[]> {
  const findings = await findFindings(instance);
  return findings.filter(({ category }) => category === 'webhooks').map(({ id }) => id);
}
