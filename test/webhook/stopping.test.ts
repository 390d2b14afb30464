/** The responses of a service that shuts down. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openAttackedService } from '../support/webhook-attacks.ts';
import { makeDirectory } from '../support/directory.ts';
import { shell } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

test('a delivery to a stopping service gets 503 with Retry-After, and starts nothing', async () => {
  const leave = join(await makeDirectory(), 'leave');
  const program = shell(`cat > /dev/null
while [ ! -e '${leave}' ]; do sleep 0.02; done
echo '{"status":"ok","result":"left"}'`);
  const at = await openAttackedService({
    service: { shutdown_timeout: '30s' },
    async prepare(directory) {
      const commands = 'commands: {poll: {}}';
      const files = { name: 'stays', entrypoint: 'run', program, commands };
      await writePlugin(join(directory, 'plugins', 'stays'), files);
    },
  });
  onTestFinished(() => at.api.close());
  const entry = { plugin: 'stays', command: 'poll', auth_mode: 'gitlab' };
  const secret = await at.open('gl', entry);
  const send = (key: string, n: number) =>
    at.post('/hooks/gl', [['x-gitlab-token', key]], `{"n":${n}}`);
  expect((await send(secret, 1)).status).toBe(202);
  const { engine } = at.api.server.instance;
  await expect
    .poll(() => engine.ledger.jobs.list({ limit: 1 }))
    .toMatchObject([{ status: 'running' }]);
  const stopped = engine.stop();
  expect((await send('wrong', 2)).status).toBe(401);
  const response = await send(secret, 2);
  await writeFile(leave, '');
  await stopped;
  expect([response.status, response.text]).toEqual([503, '{"error":"target_unavailable"}\n']);
  expect(response.head).toMatch(/^retry-after: 60\r$/im);
  expect(await engine.ledger.deliveries.list({ verdict: 'accepted', limit: 5 })).toHaveLength(1);
});
