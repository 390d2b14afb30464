import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { databases, makePlace } from '../support/instance.ts';
import { python, shell } from '../support/plugin-program.ts';

const once = { retry: { max_attempts: 1 } };

describe('an answer that is none', () => {
  test.each([
    ['nothing', 'pass', 'stdout is empty', null],
    ['garbage', 'print("hello world")', 'not one JSON object', 'hello world\n'],
    ['two documents', 'print("{}{}")', 'not one JSON object', '{}{}\n'],
    ['ok without a result', 'answer(status="ok")', 'result is missing', '{"status": "ok"}\n'],
    [
      'error without an error',
      'answer(status="error")',
      'error is missing',
      '{"status": "error"}\n',
    ],
  ])('%s fails the attempt and can be repeated', async (_name, body, error, result) => {
    const program = python(`
if attempt == 2: ok()
${body}`);
    const place = await makePlace({ plugins: { worker: { program } } });
    const { run, attempts } = await place.start();
    const job = await run('worker');
    expect(job).toMatchObject({ status: 'succeeded', attempt: 2, retryCount: 1 });
    const [first] = await attempts(job.id);
    expect(first).toMatchObject({ status: 'failed', cause: 'protocol', exitCode: 0, result });
    expect(first?.error).toContain(error);
  });
});

describe.each(databases)('output on %s', (database) => {
  test('over 10 MiB is a failure that keeps the beginning', async () => {
    const program = shell('cat > /dev/null; yes 0123456 | head -c 11534336');
    const place = await makePlace({
      database,
      plugins: { worker: { program, settings: once } },
    });
    const { run, attempts } = await place.start();
    const job = await run('worker');
    expect(job).toMatchObject({ status: 'dead', reason: 'attempt_failed' });
    const [row] = await attempts(job.id);
    expect(row).toMatchObject({ status: 'failed', cause: 'protocol' });
    expect(row?.error).toContain(String(limits.stdoutBytesMax));
    expect(row?.result?.length).toBe(limits.stdoutBytesMax);
    expect(row?.result?.startsWith('0123456\n')).toBe(true);
  });

  test('on stderr is kept up to 64 KiB and logged', async () => {
    const program = python('sys.stderr.write("s" * 100_000); ok()');
    const place = await makePlace({ database, plugins: { worker: { program } } });
    const { run, attempts, records } = await place.start();
    const job = await run('worker');
    expect(job.status).toBe('succeeded');
    const [row] = await attempts(job.id);
    expect(row?.stderr).toBe('s'.repeat(limits.stderrBytesMax));
    expect(row?.stderrTruncated).toBe(true);
    expect(records).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        message: 'plugin wrote to stderr',
        plugin: 'worker',
        job_id: job.id,
        truncated_at_bytes: limits.stderrBytesMax,
        stderr: row?.stderr,
      }),
    );
  });

  test('that no database could hold is kept as far as it can be', async () => {
    const program = python(`
sys.stderr.buffer.write(b"zero \\0 broken \\xff end")
sys.stdout.buffer.write(b"\\0\\xfe")`);
    const plugins = { worker: { program, settings: once } };
    const place = await makePlace({ database, plugins });
    const { run, attempts } = await place.start();
    const job = await run('worker');
    expect(job.status).toBe('dead');
    const [row] = await attempts(job.id);
    expect(row?.stderr).toBe('zero \uFFFD broken \uFFFD end');
    expect(row?.result).toBe('\uFFFD\uFFFD');
  });
});

test('a short word on stderr is not called truncated', async () => {
  const program = python('sys.stderr.write("by the way"); ok()');
  const place = await makePlace({ plugins: { worker: { program } } });
  const { run, attempts, records } = await place.start();
  const job = await run('worker');
  const [row] = await attempts(job.id);
  expect(row).toMatchObject({ stderr: 'by the way', stderrTruncated: false });
  const line = records.find(({ message }) => message === 'plugin wrote to stderr');
  expect(line).toMatchObject({ level: 'warn', stderr: 'by the way' });
  expect(line).not.toHaveProperty('truncated_at_bytes');
});

test('events of a failed attempt are kept in its row and nowhere else', async () => {
  const program = python(`
fail("half done", retry=False, events=[{"type": "made", "payload": {}}], state_updates={"n": 1})`);
  const place = await makePlace({
    plugins: { worker: { program } },
    routes: [{ event_type: 'made', to: 'worker' }],
  });
  const { run, attempts, ledger } = await place.start();
  const job = await run('worker');
  const [row] = await attempts(job.id);
  expect(JSON.parse(row?.result ?? '')).toMatchObject({
    events: [{ type: 'made' }],
    state_updates: { n: 1 },
  });
  const signals = await ledger.signals.list({ jobId: job.id, limit: 9 });
  expect(signals.map(({ type }) => type)).toEqual(['job.dead']);
  expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(1);
  expect(await ledger.plugins.readState('worker')).toBe('{}');
});
