import { describe, expect, test } from 'vitest';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { alwaysFails, python, succeeds } from '../support/plugin-program.ts';

const once = { retry: { max_attempts: 1 } };

describe.each(databases)('an attempt on %s', (database) => {
  test('that succeeds has a row with all details', async () => {
    const program = python('time.sleep(0.02); ok("all done", logs=[{"message": "hello"}])');
    const place = await makePlace({ database, plugins: { worker: { program } } });
    const { run, attempts, engine } = await place.start();
    const job = await run('worker', { a: 1 });
    expect(job).toMatchObject({ status: 'succeeded', attempt: 1, retryCount: 0, reason: null });
    const [row, ...others] = await attempts(job.id);
    expect(others).toEqual([]);
    expect(row).toMatchObject({
      plugin: 'worker',
      command: 'poll',
      attempt: 1,
      status: 'succeeded',
      cause: 'ok',
      exitCode: 0,
      signal: null,
      error: null,
      stderr: null,
      submittedBy: 'api',
      processId: engine.processId,
      pid: expect.any(Number),
      queueMs: expect.any(Number),
      spawnMs: expect.any(Number),
      settleMs: expect.any(Number),
    });
    expect(row?.runMs).toBeGreaterThanOrEqual(20);
    expect(JSON.parse(row?.result ?? '')).toEqual({
      status: 'ok',
      result: 'all done',
      logs: [{ message: 'hello' }],
    });
  });

  test('that fails is repeated until the budget is spent, each with a row of its own', async () => {
    const program = python(`
print(f"complaint {attempt}", file=sys.stderr)
fail(f"failure {attempt}")`);
    const settings = { retry: { max_attempts: 3, backoff_base: '10ms' } };
    const place = await makePlace({ database, plugins: { worker: { program, settings } } });
    const { run, attempts } = await place.start();
    const job = await run('worker');
    expect(job).toMatchObject({
      status: 'dead',
      reason: 'retries_exhausted',
      attempt: 3,
      retryCount: 3,
      lastError: 'failure 3',
    });
    const rows = await attempts(job.id);
    expect(rows.map(({ attempt, status, cause }) => [attempt, status, cause])).toEqual([
      [1, 'failed', 'plugin_error'],
      [2, 'failed', 'plugin_error'],
      [3, 'failed', 'plugin_error'],
    ]);
    for (const [index, row] of rows.entries()) {
      const n = index + 1;
      expect(row).toMatchObject({ error: `failure ${n}`, stderr: `complaint ${n}\n` });
      expect(JSON.parse(row.result ?? '')).toEqual({ status: 'error', error: `failure ${n}` });
    }
  });

  test('that fails is repeated after a growing delay', async () => {
    const settings = { retry: { max_attempts: 3, backoff_base: '100ms' } };
    const plugins = { worker: { program: alwaysFails, settings } };
    const place = await makePlace({ database, plugins });
    const { run, attempts } = await place.start();
    const rows = await attempts((await run('worker')).id);
    const gaps = rows.slice(1).map(({ startedAt }, index) => {
      return Date.parse(startedAt ?? '') - Date.parse(rows[index]?.completedAt ?? '');
    });
    expect(gaps[0]).toBeGreaterThanOrEqual(100);
    expect(gaps[1]).toBeGreaterThanOrEqual(200);
  });

  test('that sets a delay is not repeated before it', async () => {
    const program = python('fail("banned", retry_after_seconds=3600)');
    const settings = { retry: { backoff_base: '10ms' } };
    const place = await makePlace({ database, plugins: { worker: { program, settings } } });
    const { submit, ledger, attempts } = await place.start();
    const id = await submit('worker');
    await eventually('it failed once', async () => (await ledger.jobs.find(id))?.attempt === 2);
    const [row] = await attempts(id);
    const job = await ledger.jobs.find(id);
    expect(job).toMatchObject({ status: 'queued', retryCount: 1, lastError: 'banned' });
    const waitMs = Date.parse(job?.nextRetryAt ?? '') - Date.parse(row?.completedAt ?? '');
    expect(waitMs).toBeGreaterThanOrEqual(3_600_000);
    expect(waitMs).toBeLessThan(3_660_000);
  });

  test('is repeated on time, however rarely the queue is polled', async () => {
    const program = python('fail() if attempt == 1 else ok()');
    const service = { poll_interval: '1h' };
    const place = await makePlace({ database, plugins: { worker: { program } }, service });
    const { run } = await place.start();
    expect(await run('worker')).toMatchObject({ status: 'succeeded', attempt: 2 });
  });

  test('may succeed after others failed', async () => {
    const program = python('fail() if attempt < 3 else ok("third time lucky")');
    const place = await makePlace({ database, plugins: { worker: { program } } });
    const { run, attempts } = await place.start();
    const job = await run('worker');
    expect(job).toMatchObject({ status: 'succeeded', attempt: 3, retryCount: 2 });
    const rows = await attempts(job.id);
    expect(rows.map(({ status }) => status)).toEqual(['failed', 'failed', 'succeeded']);
  });
});

describe('an end that no further attempt can help', () => {
  test.each([
    ['exit code 78', 'sys.exit(78)', { cause: 'exit', exitCode: 78 }],
    ['retry: false', 'fail("never again", retry=False)', { cause: 'plugin_error', exitCode: 0 }],
    [
      'a response that says ok and exit code 78',
      'print(\'{"status": "ok", "result": "r"}\', flush=True); os._exit(78)',
      { cause: 'exit', exitCode: 78 },
    ],
    [
      'an answer and exit code 78',
      'print(\'{"status": "error", "error": "no key"}\', flush=True); os._exit(78)',
      { cause: 'plugin_error', exitCode: 78, error: 'no key' },
    ],
  ])('%s is final', async (_name, body, expected) => {
    const place = await makePlace({ plugins: { worker: { program: python(body) } } });
    const { run, attempts, ledger } = await place.start();
    const job = await run('worker');
    expect(job).toMatchObject({ status: 'failed', reason: expected.cause, attempt: 1 });
    const rows = await attempts(job.id);
    expect(rows).toEqual([expect.objectContaining({ status: 'failed', ...expected })]);
    expect(await ledger.signals.list({ type: 'job.dead', jobId: job.id, limit: 9 })).toHaveLength(
      1,
    );
  });
});

describe('an attempt whose process', () => {
  test('is killed by a signal is retried and names the signal', async () => {
    const program = python('os.kill(os.getpid(), signal.SIGKILL) if attempt == 1 else ok()');
    const place = await makePlace({ plugins: { worker: { program } } });
    const { run, attempts } = await place.start();
    const job = await run('worker');
    expect(job).toMatchObject({ status: 'succeeded', retryCount: 1 });
    const [first] = await attempts(job.id);
    expect(first).toMatchObject({
      status: 'failed',
      cause: 'signal',
      signal: 'SIGKILL',
      exitCode: null,
    });
  });

  test('exits with another code than 0 reports it with its last output', async () => {
    const program = python('print("no such host", file=sys.stderr); sys.exit(3)');
    const place = await makePlace({ plugins: { worker: { program, settings: once } } });
    const { run, attempts } = await place.start();
    const job = await run('worker');
    expect(job.status).toBe('dead');
    const [row] = await attempts(job.id);
    expect(row).toMatchObject({ cause: 'exit', exitCode: 3 });
    expect(row?.error).toContain('no such host');
  });

  test('says ok and exits with an error is not a success, and none of its events count', async () => {
    const answer = '{"status":"ok","result":"r","events":[{"type":"made"}]}';
    const program = python(`print('${answer}', flush=True); os._exit(1)`);
    const place = await makePlace({ plugins: { worker: { program, settings: once } } });
    const { run, attempts, ledger } = await place.start();
    const job = await run('worker');
    expect(job.status).toBe('dead');
    expect(await attempts(job.id)).toEqual([
      expect.objectContaining({ status: 'failed', cause: 'exit', exitCode: 1 }),
    ]);
    expect(await ledger.signals.list({ type: 'made', limit: 9 })).toEqual([]);
  });

  test('cannot be started is retried and says why', async () => {
    const program = '#!/nowhere/at/all\n';
    const place = await makePlace({ plugins: { worker: { program, settings: once } } });
    const { run, attempts } = await place.start();
    const job = await run('worker');
    expect(job).toMatchObject({ status: 'dead', reason: 'attempt_failed' });
    const [row] = await attempts(job.id);
    expect(row).toMatchObject({ status: 'failed', cause: 'spawn', pid: null, exitCode: null });
    expect(row?.error).toContain('ENOENT');
  });
});

test('an unknown command is refused', async () => {
  const place = await makePlace({ plugins: { worker: { program: succeeds } } });
  const { submit } = await place.start();
  await expect(submit('stranger')).rejects.toMatchObject({ code: 'PLUGIN_NOT_FOUND' });
  const unknown = submit('worker', {}, { command: 'dance' });
  await expect(unknown).rejects.toMatchObject({ code: 'COMMAND_NOT_FOUND' });
});
