/**
 * Configurations in the format of the original, checked by their effect: the real loader and a real
 * engine.
 */
import { describe, expect, test } from 'vitest';
import type { Job } from '../../src/job/job.ts';
import { databases, eventually, makePlace, type TestInstance } from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';
import { finish } from '../support/runs.ts';

const once = { max_attempts: 1 };
const worker = python(`
how = payload.get("how")
if how == "hang": time.sleep(60)
if how == "fail": fail("as asked")
ok("as always")`);
const noteProgram = python('note(json.dumps([request["command"], payload]) ); ok()');

/** The ended jobs of a plugin. */
async function jobsOf({ ledger }: TestInstance, plugin: string): Promise<Job[]> {
  return ledger.jobs.list({ plugin, limit: 20 });
}

describe.each(databases)('hooks on %s', (database) => {
  test('on-hook pipelines start at the end of jobs of plugins with notify_on_complete', async () => {
    const step = { id: 'say', uses: 'hook.poll', with: { at: 'x' } };
    const place = await makePlace({
      database,
      plugins: {
        loud: { program: worker, settings: { ...once, timeout: '2s', notify_on_complete: true } },
        quiet: { program: worker, settings: once },
        hook: { program: noteProgram, settings: { notify_on_complete: true } },
      },
      pipelines: [
        { name: 'done', 'on-hook': 'job.completed', steps: [step] },
        { name: 'failed', 'on-hook': 'job.failed', steps: [step] },
        { name: 'late', 'on-hook': 'job.timed_out', steps: [step] },
        { name: 'other', 'on-hook': 'job.completed', from_plugin: 'quiet', steps: [step] },
        { name: 'through', steps: [{ id: 'one', uses: 'loud.poll' }] },
      ],
    });
    const instance = await place.start();
    const ended = await Promise.all([
      instance.run('loud'),
      instance.run('loud', { how: 'fail' }),
      instance.run('loud', { how: 'hang' }),
      instance.run('quiet'),
      instance.run('quiet', { how: 'fail' }),
    ]);
    expect(ended.map(({ status }) => status)).toEqual([
      'succeeded',
      'dead',
      'timed_out',
      'succeeded',
      'dead',
    ]);
    // A step of a run doesn't report its end.
    expect((await finish(instance, 'through')).status).toBe('succeeded');
    const runs = await eventually('the hooks are done', async () => {
      const found = await instance.ledger.runs.list({ limit: 20 });
      const isDone = found.every(({ status }) => status === 'succeeded');
      return found.length >= 4 && isDone && found;
    });
    expect(runs.map(({ pipeline }) => pipeline).toSorted()).toEqual([
      'done',
      'failed',
      'late',
      'through',
    ]);
    const messages = new Map(
      runs.map(({ pipeline, payload }) => [pipeline, JSON.parse(payload) as unknown]),
    );
    const [good, bad, late] = ended;
    expect(messages.get('done')).toMatchObject({
      job_id: good?.id,
      plugin: 'loud',
      command: 'poll',
      status: 'succeeded',
      result: 'as always',
    });
    expect(messages.get('failed')).toMatchObject({
      job_id: bad?.id,
      error: 'as asked',
      text: `Job ${bad?.id} (loud poll) ended as dead: as asked`,
    });
    expect(messages.get('late')).toMatchObject({ job_id: late?.id, status: 'timed_out' });
  });

  test('without notify_on_complete no job.succeeded is emitted', async () => {
    const place = await makePlace({
      database,
      plugins: { quiet: { program: succeeds }, sink: { program: succeeds } },
      routes: [{ event_type: 'job.succeeded', to: 'sink' }],
    });
    const instance = await place.start();
    expect((await instance.run('quiet')).status).toBe('succeeded');
    expect(await instance.ledger.signals.list({ limit: 9 })).toEqual([]);
    expect(await jobsOf(instance, 'sink')).toEqual([]);
  });
});

test('timeout and max_attempts of a plugin hold for its jobs', async () => {
  const place = await makePlace({
    plugins: {
      slow: {
        program: worker,
        commands: '{poll: {}, custom: {}}',
        settings: { timeout: '300ms', max_attempts: 2, retry: {} },
      },
    },
  });
  const instance = await place.start();
  const job = await instance.run('slow', { how: 'hang' }, { command: 'custom' });
  expect(job).toMatchObject({ status: 'timed_out', attempt: 2, maxAttempts: 2 });
});

test('concurrency_safe: false runs the jobs of a plugin one at a time', async () => {
  const place = await makePlace({
    plugins: {
      careful: {
        program: python('note("start"); time.sleep(0.05); note("end"); ok()'),
        settings: { concurrency_safe: false },
      },
    },
  });
  const instance = await place.start();
  await Promise.all([1, 2, 3].map(() => instance.run('careful')));
  expect((await place.notes()).join(' ')).toBe('start end start end start end');
});
