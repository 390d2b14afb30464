import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { isAlive } from '../support/hosts.ts';
import { databases, makePlace } from '../support/instance.ts';
import { python, shell } from '../support/plugin-program.ts';

const sleeps = python('note(os.getpid()); time.sleep(60)');

describe.each(databases)('an attempt that takes too long on %s', (database) => {
  test('is ended; the last one of the budget leaves the job timed out', async () => {
    const settings = { timeouts: { poll: '200ms' }, retry: { max_attempts: 2 } };
    const plugins = { worker: { program: sleeps, settings } };
    const place = await makePlace({ database, plugins });
    const { run, attempts, ledger } = await place.start();
    const job = await run('worker');
    expect(job).toMatchObject({
      status: 'timed_out',
      reason: 'retries_exhausted',
      attempt: 2,
      retryCount: 2,
    });
    const rows = await attempts(job.id);
    expect(rows).toEqual(
      [1, 2].map((attempt) =>
        expect.objectContaining({
          attempt,
          status: 'timed_out',
          cause: 'timeout',
          signal: 'SIGTERM',
          error: 'timed out after 200ms',
        }),
      ),
    );
    for (const { runMs } of rows) expect(runMs).toBeGreaterThanOrEqual(200);
    for (const pid of await place.notes()) expect(isAlive(Number(pid))).toBe(false);
    expect(await ledger.signals.list({ type: 'job.dead', limit: 9 })).toHaveLength(1);
  });
});

test('each command has its own timeout', async () => {
  const program = python('time.sleep(0.4); ok()');
  const settings = { timeouts: { poll: '150ms' }, retry: { max_attempts: 1 } };
  const place = await makePlace({ plugins: { worker: { program, settings } } });
  const { run } = await place.start();
  const [poll, handle] = await Promise.all([
    run('worker'),
    run('worker', {}, { command: 'handle' }),
  ]);
  expect([poll.status, handle.status]).toEqual(['timed_out', 'succeeded']);
});

// In the shell, which is ready for the signal long before it comes.
const settings = { timeouts: { poll: '500ms' }, retry: { max_attempts: 1 } };

test('a plugin that ignores SIGTERM is killed after the grace time', async () => {
  const program = shell("trap '' TERM; echo $$ > ../../notes; sleep 60");
  const place = await makePlace({ plugins: { worker: { program, settings } } });
  const { run, attempts } = await place.start();
  const job = await run('worker');
  expect(job.status).toBe('timed_out');
  const [row] = await attempts(job.id);
  expect(row).toMatchObject({ status: 'timed_out', signal: 'SIGKILL' });
  expect(row?.runMs).toBeGreaterThanOrEqual(500 + limits.killGraceMs);
  const [pid] = await place.notes();
  expect(isAlive(Number(pid))).toBe(false);
});

test('an answer given while it is being stopped comes too late', async () => {
  const answer = '{"status":"ok","result":"just in time?"}';
  const program = shell(`trap 'echo "$answer"; exit' TERM; answer='${answer}'; sleep 60 & wait`);
  const place = await makePlace({ plugins: { worker: { program, settings } } });
  const { run, attempts } = await place.start();
  const job = await run('worker');
  expect(job.status).toBe('timed_out');
  const [row] = await attempts(job.id);
  expect(row?.result).toBe(`${answer}\n`);
});
