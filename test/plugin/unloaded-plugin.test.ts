import { createHmac } from 'node:crypto';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { startApi } from '../support/api-server.ts';
import { python, succeeds } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

const emits = python('ok(events=payload["events"])');

/** Takes away the execute permission, so that the plugin can't load. */
async function breakPlugin(directory: string, name: string): Promise<() => Promise<void>> {
  const program = join(directory, 'plugins', name, 'run');
  await chmod(program, 0o644);
  return () => chmod(program, 0o755);
}

describe.each(databases)('a service on %s with a plugin that did not load', (database) => {
  test('starts; routed jobs and steps wait for the plugin, and everything else runs', async () => {
    const place = await makePlace({
      database,
      plugins: {
        source: { program: emits },
        broken: { program: succeeds },
        sound: { program: succeeds },
      },
      routes: [
        { event_type: 'made', to: 'broken' },
        { event_type: 'made', to: 'sound' },
      ],
      pipelines: [{ name: 'flow', on: 'made', steps: [{ uses: 'sound' }, { uses: 'broken' }] }],
    });
    const repair = await breakPlugin(place.directory, 'broken');
    const { run, ended, ledger, records, engine } = await place.start();

    const parent = await run('source', { events: [{ type: 'made', payload: { n: 1 } }] });
    const children = await ledger.jobs.list({ parentJobId: parent.id, order: 'oldest', limit: 9 });
    const routed = children.filter(({ runId }) => runId === null);
    const [sound, broken] = ['sound', 'broken'].map((name) =>
      routed.find(({ plugin }) => plugin === name),
    );
    expect(await ended(sound?.id ?? '')).toMatchObject({ status: 'succeeded' });
    const waiting = await eventually('both jobs wait', async () => {
      const jobs = await ledger.jobs.list({ plugin: 'broken', order: 'oldest', limit: 9 });
      return jobs.length === 2 ? jobs : undefined;
    });
    expect(waiting.map(({ status }) => status)).toEqual(['queued', 'queued']);
    expect(records).toContainEqual(
      expect.objectContaining({ level: 'error', plugin: 'broken', message: expect.any(String) }),
    );
    engine.lookForIncidents();
    await eventually('an incident is open', async () =>
      (await ledger.incidents.list({ isOpen: true, limit: 9 })).find(
        ({ kind, key }) => kind === 'plugin_not_loaded' && key === 'broken',
      ),
    );

    const reload = () => engine.direct({ type: 'config.reload', params: {}, actor: 'test' });
    expect(await reload()).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('broken, which did not load'),
    });
    await repair();
    expect(await reload()).toMatchObject({ status: 'completed' });
    expect(await ended(broken?.id ?? '')).toMatchObject({ status: 'succeeded' });
    for (const { id } of waiting) {
      expect(await ended(id)).toMatchObject({ status: 'succeeded' });
    }
  });
});

test('a delivery to an endpoint of a plugin that did not load is accepted and waits', async () => {
  const endpoint: JsonObject = {
    path: '/in',
    plugin: 'broken',
    secret_ref: 'in_secret',
    signature_header: 'X-Signature',
  };
  const key = 'a-secret-of-the-files';
  const api = await startApi({
    webhooks: { listen: '127.0.0.1:0', endpoints: [endpoint] },
    tokens: [{ name: 'in_secret', key, scopes: [] }],
    async prepare(directory) {
      const files = { name: 'broken', entrypoint: 'run', program: succeeds };
      await writePlugin(join(directory, 'plugins', 'broken'), files);
      await breakPlugin(directory, 'broken');
    },
  });
  onTestFinished(() => api.close());
  const body = '{"n":1}';
  const signature = createHmac('sha256', key).update(body).digest('hex');
  const accepted = await api.deliver('/in', {
    body,
    headers: { 'x-signature': signature, 'content-type': 'application/json' },
  });
  expect(accepted.status).toBe(202);
  const job = await api.ask(`/job/${String(accepted.body['job_id'])}`);
  expect(job.body).toMatchObject({ plugin: 'broken', status: 'queued' });

  const refused = await api.ask('/plugin/broken/handle', { body: '{}' });
  expect(refused).toMatchObject({ status: 422 });
  expect(refused.text).toContain('did not load');
  const listed = await api.ask('/plugins');
  expect(listed.body).toMatchObject({ problems: [{ plugin: 'broken' }] });
});
