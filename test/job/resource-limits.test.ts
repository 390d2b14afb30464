/** An attempt that exceeds a limit fails with that cause, and the service continues. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';
import { databases, makePlace } from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';

const MIB = 1024 * 1024;
const retry = { max_attempts: 2, backoff_base: '10ms' };

describe.each(databases)('limits on %s', (database) => {
  test('on memory fail each attempt within its retry budget, and others continue', async () => {
    const greedy = python(`
import os
if os.fork() == 0:
    taken = [b"x" * (1 << 20) for _ in range(500)]
    time.sleep(60)
os.wait()
ok("never")`);
    const place = await makePlace({
      database,
      plugins: {
        greedy: { program: greedy, settings: { retry, limits: { memory: '64MiB' } } },
        modest: { program: succeeds },
      },
    });
    const { run, attempts } = await place.start();
    const job = await run('greedy');
    expect(job).toMatchObject({
      status: 'dead',
      reason: 'retries_exhausted',
      lastError: 'used more than 64MiB of memory',
    });
    const rows = await attempts(job.id);
    expect(rows).toMatchObject([
      { status: 'failed', cause: 'out_of_memory', signal: 'SIGKILL' },
      { status: 'failed', cause: 'out_of_memory', signal: 'SIGKILL' },
    ]);
    for (const { memoryPeakBytes } of rows) expect(memoryPeakBytes).toBeGreaterThan(64 * MIB);
    expect(await run('modest')).toMatchObject({ status: 'succeeded' });
  });

  test('on CPU time, processes and files have causes of their own', async () => {
    const file = JSON.stringify(join(await makeDirectory(), 'file'));
    const once = { max_attempts: 1 };
    const plugins = {
      busy: {
        program: python('while True: pass'),
        settings: { retry: once, limits: { cpu: '300ms' } },
      },
      many: {
        program: python(`
import subprocess
children = [subprocess.Popen(["sleep", "60"]) for _ in range(40)]
time.sleep(60)`),
        settings: { retry: once, limits: { processes: 8 } },
      },
      large: {
        program: python(`
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
open(${file}, "wb").write(b"x" * (2 << 20))`),
        settings: { retry: once, limits: { file_size: '1MiB' } },
      },
    };
    const place = await makePlace({ database, plugins });
    const { run, attempts } = await place.start();
    for (const [name, cause, error] of [
      ['busy', 'cpu_limit', 'used more than 300ms of CPU time'],
      ['many', 'process_limit', 'had more than 8 processes at the same time'],
      ['large', 'file_size_limit', 'wrote a file of more than 1MiB'],
    ] as const) {
      const job = await run(name);
      expect(job).toMatchObject({ status: 'dead', lastError: error });
      expect(await attempts(job.id)).toMatchObject([{ status: 'failed', cause }]);
    }
  });

  test('the usage of an attempt is recorded', async () => {
    const program = python('taken = b"x" * (40 << 20); sum(range(2000000)); ok("done")');
    const place = await makePlace({ database, plugins: { worker: { program } } });
    const { run, attempts } = await place.start();
    const [row] = await attempts((await run('worker')).id);
    expect(row?.cpuMs).toBeGreaterThan(0);
    expect(row?.memoryPeakBytes).toBeGreaterThan(40 * MIB);
  });
});
