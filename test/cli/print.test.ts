/** The output of the command line, and its exit codes. */
import { describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { job, run } from '../support/fake-cli.ts';

describe('errors', () => {
  const error = new DuctileError(
    'CONFIG_INVALID',
    'service.max_workers must be at least 1, not 0',
    {
      place: '/etc/ductile/config.yaml:3:3',
    },
  );

  test('say what, where and what to do, and exit as the catalogue says', async () => {
    const { code, err, out } = await run(['job', 'list'], {
      host: { findSocket: () => Promise.reject(error) },
    });
    expect([code, out]).toEqual([78, '']);
    expect(err).toBe(
      [
        'error: service.max_workers must be at least 1, not 0',
        'where: /etc/ductile/config.yaml:3:3',
        'to do: Correct the named key, then start again.',
        'code:  CONFIG_INVALID',
        'more:  ductile docs errors#CONFIG_INVALID',
        '',
      ].join('\n'),
    );
  });

  test('are one JSON object with --json', async () => {
    const { code, err, out } = await run(['system', 'start', '--json'], {
      host: { start: () => Promise.reject(error) },
    });
    expect([code, out]).toEqual([78, '']);
    expect(JSON.parse(err)).toEqual({
      error: 'service.max_workers must be at least 1, not 0',
      message: 'service.max_workers must be at least 1, not 0',
      code: 'CONFIG_INVALID',
      place: '/etc/ductile/config.yaml:3:3',
      hint: 'Correct the named key, then start again.',
      retryable: false,
      exit_code: 78,
      docs: '/docs/reference/errors#config_invalid',
    });
  });

  test('show each problem of a configuration on its line, and escape what would harm a terminal', async () => {
    const problems = [
      { place: 'a.yaml:1:1', key: 'x', message: 'is wrong' },
      { place: 'a.yaml:2:1', key: 'y', message: 'is \u001b[2J' },
    ];
    const answer = new DuctileError('PLUGIN_INVALID', 'two problems', { details: { problems } });
    const { err, code } = await run(['job', 'list'], { answer });
    expect(err).toContain(
      'error: The configuration has 2 problems:\n  a.yaml:1:1: x is wrong.\n  a.yaml:2:1: y is \\u001b[2J.\n',
    );
    expect(code).toBe(78);
  });

  test('have no escaped line breaks, in text or as JSON', async () => {
    const answer = new DuctileError('PLUGIN_INVALID', 'it failed:\n  File "a"\r\n\tb');
    const asText = await run(['job', 'list'], { answer });
    expect(asText.err).toContain('error: it failed: File "a" b\n');
    const asJson = await run(['job', 'list', '--json'], { answer });
    expect(asJson.err).not.toContain(String.raw`\n`);
  });

  test('that are unexpected are called a defect', async () => {
    const { err, code } = await run(['job', 'list'], { answer: new TypeError('x is undefined') });
    expect([code, err]).toEqual([1, expect.stringContaining('INTERNAL')]);
  });

  test('name a service that ended in the middle of a response', async () => {
    const { err, code } = await run(['job', 'list'], {
      host: { findSocket: () => Promise.resolve({ socketPath: '/nowhere/ductile.sock' }) },
    });
    expect([code, err]).toEqual([1, expect.stringContaining('SERVER_UNREACHABLE')]);
  });
});

describe('the printed text', () => {
  test('is the whole result with --json', async () => {
    const answer = { jobs: [{ ...job, last_error: 'a\nb\u202e' }], next_before: null };
    const { out } = await run(['job', 'list', '--json'], { answer });
    expect(JSON.parse(out)).toEqual(answer);
    expect(out).not.toContain('\u202e');
  });

  test('is a table with one line for each row, whatever text a plugin wrote', async () => {
    const jobs = [
      { ...job, actor: 'cli:ann' },
      { ...job, job_id: 'x', status: 'dead', last_error: 'bad\nID\u001b[31m' },
    ];
    const { out } = await run(['job', 'list'], { answer: { jobs } });
    const lines = out.trimEnd().split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^ID +PLUGIN +COMMAND +STATUS +ATTEMPT +CREATED +COMPLETED +ERROR$/);
    expect(lines[1]).toMatch(/^0199\S+ +mail +poll +succeeded +1 +2026\S+ +2026\S+ +-$/);
    expect(lines[2]).toContain('bad ↵ ID\\u001b[31m');
    expect(lines[0]?.indexOf('STATUS')).toBe(lines[2]?.indexOf('dead'));
    expect((await run(['job', 'list', '-v'], { answer: { jobs } })).out).toContain('cli:ann');
  });

  test('fits a terminal, has colours there, and says when there is nothing', async () => {
    const jobs = [{ ...job, last_error: 'long '.repeat(50) }];
    const io = { isTTY: true, hasColors: true, columns: 160 };
    const { out } = await run(['job', 'list'], { answer: { jobs }, io });
    expect(out).toContain('\u001b[32msucceeded');
    expect(out).toContain('…');
    expect((await run(['job', 'list'], { answer: { jobs: [] } })).out).toBe(
      'There are no such jobs.\n',
    );
    expect((await run(['queue'], { answer: { jobs: [] } })).out).toBe('The queue is empty.\n');
  });

  test('for a dry run is the plan, and the exit code is 0', async () => {
    const answer = { dry_run: true, plan: ['Much would happen.'] };
    const { out, code } = await run(['job', 'cancel', '0199', '--dry-run'], { answer });
    expect([out, code]).toEqual(['Much would happen.\nNothing was done.\n', 0]);
  });

  test('for the whole history of a job has its parts', async () => {
    const attempt = {
      attempt: 1,
      status: 'failed',
      cause: 'exit',
      exit_code: 1,
      run_ms: 5,
      stderr: 'oh\nno',
    };
    const answer = {
      ...job,
      status: 'failed',
      retry_count: 1,
      max_attempts: 4,
      submitted_by: 'route',
      actor: 'plugin:watch',
      payload: { a: 1 },
      attempts: [attempt],
      signals: [{ signal_id: 's1', type: 'mail.new', occurred_at: 't' }],
      children: [{ ...job, job_id: 'child' }],
      parent: { ...job, job_id: 'parent' },
      cause: { signal_id: 's0', type: 'file.new', source: 'plugin:watch' },
    };
    const { out } = await run(['job', 'show', '0199'], { answer });
    for (const part of [
      'failed',
      'file.new from plugin:watch',
      'parent (mail poll, succeeded)',
      '{"a":1}',
    ]) {
      expect(out).toContain(part);
    }
    for (const title of ['Attempts', 'Signals', 'Children']) expect(out).toContain(`\n${title}\n`);
    expect(out).not.toContain('oh');
    const verbose = await run(['job', 'show', '0199', '-v'], { answer });
    expect(verbose.out).toContain('stderr of attempt 1\n  oh\n  no\n');
  });

  test('for logs has results and stderr when more is requested', async () => {
    const logs = [
      { log_id: 'l1', job_id: 'j', status: 'failed', result: { status: 'error' }, stderr: 'x' },
    ];
    const answer = { logs };
    expect((await run(['job', 'logs'], { answer })).out).not.toContain('stderr');
    const { out } = await run(['job', 'logs', '-v'], { answer });
    expect(out).toContain('attempt l1\nresult\n  {"status":"error"}\nstderr\n  x\n');
  });

  test('for plugins has those that did not load', async () => {
    const answer = {
      plugins: [
        { name: 'mail', version: '1', parallelism: 2, types: { poll: 'read' }, description: 'd' },
      ],
      dormant: { vault: ['token'] },
      disabled: ['old'],
      problems: [
        {
          plugin: 'bad',
          place: 'bad/manifest.yaml:1:1',
          message: 'protocol must be 2',
          hint: 'Fix it.',
        },
      ],
      warnings: [{ plugin: null, place: 'here', message: 'beware', hint: null }],
    };
    const { out } = await run(['plugin', 'list'], { answer });
    expect(out).toMatch(/mail +1 +2 +poll \(read\) +d\n/);
    expect(out).toContain('vault is not set up yet; it needs token');
    expect(out).toContain('disabled: old');
    expect(out).toContain('bad: protocol must be 2\n  bad/manifest.yaml:1:1. Fix it.\n');
    expect(out).not.toContain('beware');
    expect((await run(['plugin', 'list', '-v'], { answer })).out).toContain('beware');
  });

  test('for the status is a summary with the processes', async () => {
    const answer = {
      state: 'degraded',
      detail: 'the database is away',
      process_id: 'p1',
      uptime_seconds: 3700,
      ledger: 'sqlite',
      spawner: 'native',
      slots: 4,
      running: [{ job_id: 'j1', plugin: 'mail', command: 'poll' }],
      queue: { ready: 3, delayed: 1, running: 1, oldest_ready_at: null },
      plugins: { loaded: 5, problems: [], warnings: [] },
      processes: [{ process_id: 'p1', host: 'h', pid: 9 }],
    };
    const { out, code } = await run(['status'], { answer });
    expect(code).toBe(1);
    expect(out).toMatch(/state +degraded\ndetail +the database is away\n/);
    expect(out).toMatch(/up +1h1m40s/);
    expect(out).toContain('3 ready, 1 delayed, 1 running (1 of 4 slots here)');
    expect(out).toContain('\nProcesses\n');
    expect((await run(['status'], { answer: { ...answer, state: 'running' } })).code).toBe(0);
  });
});

describe('bad news is an exit code', () => {
  const base = { ...job, timeout_exceeded: false, duplicate: false, stderr: null, result: null };
  test.each([
    [{ ...base, status: 'succeeded' }, 0],
    [{ ...base, status: 'failed' }, 1],
    [{ ...base, status: 'dead' }, 1],
    [{ ...base, status: 'cancelled' }, 1],
    // No caller waited for its end; a caller waited and it can't continue here; a caller waited for
    // too short.
    [{ ...base, status: 'queued', completed_at: null, timeout_exceeded: undefined }, 0],
    [{ ...base, status: 'queued', completed_at: null }, 1],
    [{ ...base, status: 'running', completed_at: null, timeout_exceeded: true }, 1],
  ])('plugin run: %j', async (answer, code) => {
    const output = await run(['plugin', 'run', 'mail'], { answer });
    expect(output.code).toBe(code);
    expect(output.out).toContain(answer.status);
    expect(output.out.includes('The job continues')).toBe(answer.timeout_exceeded === true);
    expect((await run(['plugin', 'run', 'mail', '--json'], { answer })).code).toBe(code);
  });

  test.each([
    [{ ...job, status: 'cancelled' }, 0, 'is cancelled'],
    [{ ...job, status: 'running' }, 0, 'is being stopped'],
    [{ ...job, status: 'succeeded', cancel_requested_at: 't' }, 1, 'nothing to cancel'],
  ])('job cancel: %j', async (answer, code, words) => {
    const output = await run(['job', 'cancel', '0199'], { answer });
    expect([output.code, output.out]).toEqual([code, expect.stringContaining(words)]);
  });

  test('system check: problems', async () => {
    const sound = await run(['system', 'check'], { answer: { ok: true, problems: [] } });
    expect([sound.code, sound.out]).toEqual([0, 'The database has no problems.\n']);
    const bad = await run(['system', 'check'], { answer: { ok: false, problems: ['2 lost'] } });
    expect([bad.code, bad.out]).toEqual([1, expect.stringContaining('  2 lost')]);
  });
});
