/** The output of operations with a view of their own. */
import { expect, test } from 'vitest';
import type { CliIo } from '../../src/cli/host.ts';
import { Printer } from '../../src/cli/print.ts';
import { views } from '../../src/cli/show.ts';
import { run } from '../support/fake-cli.ts';

const WHEN = '2026-01-02T03:04:05.678Z';

async function look(argv: readonly string[], answer: Readonly<Record<string, unknown>>) {
  const { out, err } = await run(argv, { answer });
  expect(err).toBe('');
  return out;
}

/** For operations that need a server. */
function print(operation: string, answer: Readonly<Record<string, unknown>>): string {
  const written: string[] = [];
  const io = { stdout: { write: (text: string) => written.push(text) } } as unknown as CliIo;
  views[operation]?.(answer, new Printer(io, { hasColors: false }));
  return written.join('');
}

test('schedule preview: that there is more than is shown', async () => {
  const time = { at: WHEN, until: WHEN, count: 1, plugin: 'mail', schedule_id: 'default' };
  const answer = (truncated: boolean) => ({ times: [{ ...time, fires: true }], truncated });
  expect(await look(['schedule', 'preview'], answer(true))).toMatch(/\nNot all times are shown/);
  expect(await look(['schedule', 'preview'], answer(false))).not.toContain('Not all times');
});

test('job show: what each attempt used', async () => {
  const attempt = { attempt: 1, status: 'failed', cause: 'out_of_memory', cpu_ms: 1840 };
  const attempts = [
    { ...attempt, memory_peak_bytes: 557_000_000 },
    { ...attempt, attempt: 2, cause: 'exit', cpu_ms: null, memory_peak_bytes: null },
  ];
  const result = await look(['job', 'show', 'j-1'], { job_id: 'j-1', attempts });
  expect(result).toMatch(/CPU MS +MEMORY/);
  expect(result).toMatch(/out_of_memory .*1840 +531\.2MiB/);
});

test('equal attempts of a long job are one line, and a line each with --verbose', async () => {
  const attempts = Array.from({ length: 92 }, (_, index) => ({
    attempt: index + 1,
    status: 'crashed',
    cause: 'crash',
    last_error: `process ${index} was killed`,
  }));
  const output = { job_id: 'j-1', attempts };
  const result = await look(['job', 'show', 'j-1'], output);
  expect(result).toMatch(/^1–92 +crashed +92 × crash /m);
  expect(result.match(/^\S+ +crashed /gm)).toHaveLength(1);
  const all = await look(['job', 'show', 'j-1', '--verbose'], output);
  expect(all.match(/^\d+ +crashed +crash /gm)).toHaveLength(92);
});

test('status: that the last reload was refused, and why', async () => {
  const answer = (refused: string | null) => ({
    state: 'running',
    generation: { last_reload: { at: WHEN, by: 'signal:SIGHUP', refused } },
  });
  const result = await look(['status'], answer('config.yaml: service.log_level is wrong'));
  expect(result).toContain('config.yaml: service.log_level is wrong (signal:SIGHUP, ');
  expect(result).toMatch(/^last reload +refused, so the previous configuration stays active: /m);
  expect(await look(['status'], answer(null))).not.toContain('last reload');
});

test('directive show: actor, action, plan and outcome', async () => {
  const out = await look(['directive', 'show', 'd1'], {
    directive_id: 'd1',
    type: 'config.reload',
    target: 'config:',
    status: 'failed',
    params: {},
    actor: 'cli:me',
    scope: 'system:rw',
    idempotency_key: 'auto:x',
    plan: ['One thing would be done.', 'And another.'],
    result: null,
    error_kind: 'RELOAD_REFUSED',
    error_message: 'it is wrong',
    process_id: 'p1',
    requested_at: WHEN,
    started_at: null,
    completed_at: WHEN,
    signals: [{ signal_id: 's1', type: 'directive.failed', occurred_at: WHEN, data: {} }],
  });
  expect(out).toBe(`directive  d1
type       config.reload
target     config:
status     failed
by         cli:me (needs system:rw)
requested  ${WHEN}
completed  ${WHEN}
error      it is wrong (RELOAD_REFUSED)
plan
  One thing would be done.
  And another.

Signals
OCCURRED                  TYPE
${WHEN}  directive.failed
`);
});

test('token create: the text, and that it is not shown again', async () => {
  const answer = { token_id: 't1', name: 'ci', scopes: ['jobs:ro'], expires_at: null };
  const argv = ['token', 'create', 'ci', '--scopes', 'jobs:ro'];
  expect(await look(argv, { ...answer, token: 'duct_x', directive_id: 'd1' })).toBe(
    'name    ci\nscopes  jobs:ro\ntoken   duct_x\nSave the token now. It is not shown again.\n',
  );
  expect(await look(argv, { ...answer, token: null })).toContain('ductile token rotate');
});

test('jobs cancel and retry: a sentence', async () => {
  const cancelled = { directive_id: 'd', jobs: 3, cancelled: 2, requested: 1, unchanged: 0 };
  const cancel = ['jobs', 'cancel', '--plugin', 'mail'];
  expect(await look(cancel, cancelled)).toBe('3 jobs: 2 cancelled, 1 asked to stop\n');
  expect(await look(cancel, { ...cancelled, jobs: 0 })).toContain('No jobs match.');
  const retried = { directive_id: 'd', jobs: 2, queued: 1, under_way: 1, unknown_plugin: 0 };
  expect(await look(['jobs', 'retry', '--plugin', 'mail'], retried)).toBe(
    '2 jobs: 1 queued again\n1 are already in progress.\n',
  );
});

test('breaker show: the states, how they came about, and what closes one', async () => {
  const out = await look(['breaker', 'show'], {
    breakers: [
      {
        plugin: 'mail',
        command: 'poll',
        state: 'open',
        failure_count: 3,
        threshold: 3,
        opened_at: WHEN,
        last_failure_at: WHEN,
        last_job_id: 'j1',
      },
    ],
    transitions: [
      {
        plugin: 'mail',
        command: 'poll',
        from_state: 'closed',
        to_state: 'open',
        reason: 'failures',
        job_id: 'j1',
        created_at: WHEN,
      },
    ],
  });
  expect(out).toMatch(/mail +poll +open +3 of 3/);
  expect(out).toMatch(/History\nWHEN.*\n.*closed +open +failures +j1/);
  expect(out).toContain('To close it, run `ductile breaker reset mail`.');
  expect(await look(['breaker', 'show'], { breakers: [], transitions: [] })).toBe(
    'There are no breakers yet, because no such scheduled command has run.\n',
  );
});

test('system reload: each change on a line of its own', () => {
  const changes = ['service.timezone: not set → "UTC"', 'The plugin mail has other settings.'];
  const answer = { status: 'ok', generation: 2, message: '2 changes are in force.', changes };
  const out = print('system.reload', { ...answer, directive_id: 'd1' });
  expect(out).toBe(
    `2 changes are in force.\n  ${changes.join('\n  ')}\nRecorded as directive d1.\n`,
  );
});

test('config diff without a lock says how to make one', async () => {
  const none = { same: true, compared_with: 'no lock', files: [], keys: [], plugins: [] };
  expect(await look(['config', 'diff'], none)).toContain('Run `ductile config lock` to create one');
});

test('plugin health: the status, the result of the check and the result of the init', () => {
  const out = print('plugin.health', {
    plugin: 'mail',
    status: 'unhealthy',
    reason: 'no server',
    result: { status: 'error', error: 'no server' },
    job_id: 'j1',
    duration_ms: 24,
    init: { status: 'healthy', reason: null, job_id: 'j0', since: WHEN },
    check: null,
  });
  expect(out).toMatch(/status +unhealthy\nreason +no server\n.*\ntook +24ms\nsetup +healthy\n/);
});

test('status without a server says nothing of a process', async () => {
  const out = await look(['status'], {
    state: 'stopped',
    process_id: 'p1',
    uptime_seconds: 0,
    ledger: 'sqlite',
    spawner: 'native',
    slots: 1,
    running: [],
    queue: { ready: 0, delayed: 0, running: 1 },
    plugins: { loaded: 1, problems: [] },
    processes: [],
  });
  expect(out).toBe(
    'state    stopped\nledger   sqlite\nqueue    0 ready, 0 delayed, 1 running\nplugins  1 loaded, 0 with problems\n',
  );
});

test('status shows the last jobs, what plugins remember, and which could not be set up', async () => {
  const out = await look(['status'], {
    state: 'running',
    ledger: 'sqlite',
    running: [],
    queue: {},
    plugins: {
      loaded: 2,
      problems: [],
      unhealthy: { pump: 'it leaks' },
      views: [
        { plugin: 'mail', bytes: 9, state: { seen: 1 } },
        { plugin: 'pump', bytes: 9000, state: null },
      ],
    },
    last_jobs: [{ job_id: 'j1', plugin: 'mail', command: 'poll', status: 'succeeded' }],
    processes: [],
  });
  expect(out).toContain('the init of pump failed, and its jobs wait (it leaks)');
  expect(out).toMatch(/Last jobs\nJOB .*\nj1 +mail +poll +succeeded/);
  expect(out).toMatch(/State of plugins\n.*\nmail +\{"seen":1\}\npump +9000 bytes\n/);
});

test('plugin list says which do not work', async () => {
  const plugin = { version: '1', types: { poll: 'read' }, parallelism: 1 };
  const out = await look(['plugin', 'list'], {
    plugins: [
      { ...plugin, name: 'pump', health: 'unhealthy', reason: 'it leaks', enabled: true },
      { ...plugin, name: 'mail', health: null, reason: null, enabled: false },
    ],
    problems: [],
  });
  expect(out).toContain('the init of pump failed, and its jobs wait (it leaks)');
  expect(out).toContain('mail is disabled; run `ductile plugin enable mail`');
});

test('incident show: its events are a table, and the detail is readable', async () => {
  const signal = {
    signal_id: 's1',
    type: 'incident.opened',
    occurred_at: '2026-01-02T03:04:05.006Z',
  };
  const answer = {
    incident_id: 'i1',
    kind: 'failure_streak',
    detail: { failures: 5 },
    signals: [signal],
  };
  const { out } = await run(['incident', 'show', 'i123'], { answer });
  expect(out).toContain('detail\n  {\n    "failures": 5\n  }\n');
  expect(out).toMatch(/Signals\nOCCURRED +TYPE +ID\n2026-01-02\S+ +incident\.opened +s1\n/);
});

test('a job that was retried is marked, and EXIT is the exit code of its command', async () => {
  const jobs = [{ job_id: 'j1', plugin: 'mail', status: 'dead', retried_as: 'j2' }];
  const listed = await look(['job', 'list'], { jobs, total: 1, next_cursor: null });
  expect(listed).toMatch(/j1 +mail +- +dead, retried/);
  const attempts = [
    { attempt: 1, status: 'failed', cause: 'plugin_error', exit_code: 0, command_exit_code: 3 },
    { attempt: 2, status: 'failed', cause: 'exit', exit_code: 78, command_exit_code: null },
    { attempt: 3, status: 'failed', cause: 'signal', exit_code: null, signal: 'SIGKILL' },
  ];
  const shown = await look(['job', 'show', 'abcd'], { ...jobs[0], attempts });
  expect(shown).toMatch(/status +dead, retried\n[^]*retried as +j2\n/);
  expect(shown).toMatch(/\n1 +failed +plugin_error +3 /);
  expect(shown).toMatch(/\n2 +failed +exit +78 /);
  expect(shown).toMatch(/\n3 +failed +signal +SIGKILL /);
});
