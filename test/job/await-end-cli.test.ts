/** Waiting for the end of a job: failed attempts are reported meanwhile, and Ctrl-C says what continues. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { run } from '../support/fake-cli.ts';
import { eventually } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

const moody = python('ok("fine") if attempt > 1 else fail("the server is away")');

let api: TestApi;

beforeAll(async () => {
  api = await startApi({
    pipelines: [
      { name: 'flow', steps: [{ id: 'send', uses: 'moody.poll' }] },
      { name: 'asks', steps: [{ id: 'ok', approve: 'Send it?' }] },
    ],
    plugins: { moody: { enabled: true, retry: { max_attempts: 3, backoff_base: '4s' } } },
    prepare: async (directory) => {
      const files = { name: 'moody', program: moody, commands: 'commands: {poll: {}}' };
      await writePlugin(join(directory, 'plugins', 'moody'), files);
    },
  });
});

afterAll(async () => {
  await api.close();
});

const io = { now: () => Date.now(), env: { DUCTILE_TOKEN: OWNER } };

function where(): string[] {
  return ['--url', `http://127.0.0.1:${api.port}`];
}

test('plugin run says that an attempt failed and when the next one is, and gives the result', async () => {
  const { code, out, err } = await run(['plugin', 'run', 'moody', '--json', ...where()], { io });
  expect(err).toMatch(/^attempt 1 of 3 failed: the server is away; next attempt in \ds\n$/);
  expect(JSON.parse(out)).toMatchObject({ status: 'succeeded', attempt: 2, duplicate: false });
  expect(code).toBe(0);
});

test('pipeline run says the same of a step', async () => {
  const { code, out, err } = await run(['pipeline', 'run', 'flow', '--json', ...where()], { io });
  expect(err).toMatch(/^step send: moody poll will be retried: .*; next attempt in \ds\n/);
  expect(JSON.parse(out)).toMatchObject({ status: 'succeeded', tree: [{ step: 'send' }] });
  expect(code).toBe(0);
});

test('pipeline run returns when the run waits for a person, and says how to answer', async () => {
  const started = await run(['pipeline', 'run', 'asks', ...where()], { io });
  const id = /run +([0-9a-f-]{36})/.exec(started.out)?.[1] ?? '';
  expect(started.out).toMatch(/status +waiting\n/);
  expect(started.out).toMatch(/waits for +approval Send it\? at ok\n/);
  expect(started.out).toContain(`ductile run approve ${id} ok`);
  expect(started.code).toBe(1);
  const waited = run(['run', 'wait', id, '--json', ...where()], { io });
  const approved = await run(['run', 'approve', id, 'ok', ...where()], { io });
  expect(approved.code).toBe(0);
  expect(JSON.parse((await waited).out)).toMatchObject({ status: 'succeeded' });
});

test('Ctrl-C says that the job continues, how to stop it and how to wait for it', async () => {
  const over = new AbortController();
  const { ledger } = api.server.instance.engine;
  const interrupt = eventually('a job runs', async () => {
    const [sleeper] = await ledger.jobs.list({ plugin: 'sleeper', status: ['running'], limit: 1 });
    return sleeper;
  }).then((sleeper) => {
    over.abort();
    return sleeper.id;
  });
  const script = { io: { ...io, interruption: () => over.signal } };
  const ended = await run(['plugin', 'run', 'sleeper', ...where()], script);
  const id = await interrupt;
  const target = `--url http://127.0.0.1:${api.port}`;
  expect(ended.err).toBe(
    `job ${id} continues. Stop it: \`ductile job cancel ${id} ${target}\`. ` +
      `Wait for it: \`ductile job wait ${id} ${target}\`\n`,
  );
  expect(ended.hostCalls).toContainEqual(['exit', 130]);
  expect(ended.out).toBe('');
  const { body } = await api.ask(`/job/${id}`);
  expect(body).toMatchObject({ status: 'running' });
  await api.ask(`/job/${id}/cancel`, { method: 'POST' });
  const waited = await run(['job', 'wait', id, '--json', ...where()], { io });
  expect(JSON.parse(waited.out)).toMatchObject({ job_id: id, status: 'cancelled' });
  expect(waited.code).toBe(1);
});
