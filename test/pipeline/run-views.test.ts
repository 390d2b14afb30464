/** Runs on the command line. */
import { expect, test } from 'vitest';
import { run } from '../support/fake-cli.ts';

const WHEN = '2026-01-02T03:04:05.678Z';

const shown = {
  run_id: 'r1',
  pipeline: 'digest',
  status: 'halted',
  halt_reason: 'retries_exhausted',
  halt_message: 'it broke',
  halted_at_step: 'send',
  submitted_by: 'api',
  actor: 'token:ci',
  created_at: WHEN,
  started_at: WHEN,
  completed_at: WHEN,
  duration_ms: 12,
  revived_from: null,
  revived_as: null,
  payload: { n: 1 },
  output: null,
  steps: [{ step: 'send', branch: '0', kind: 'task', status: 'failed', error: 'it broke' }],
  branches: [{ branch: '0', step: 'send', status: 'halted' }],
  waiting: [],
  complete: true,
};

test('run show: what happened, and how to continue', async () => {
  const { out, err } = await run(['run', 'show', 'r1234'], { answer: shown });
  expect(err).toBe('');
  expect(out).toMatch(/^run +r1\npipeline +digest\nstatus +halted\nhalted at +send\n/);
  expect(out).toMatch(/\nsend +0 +task +failed/);
  expect(out).toContain('`ductile run revive r1` continues it in a new run.');
});

test('run show: what it waits for, and the command that continues it', async () => {
  const waiting = [{ step: 'ok', branch: '0', why: 'it waits for approval' }];
  const answer = { ...shown, status: 'running', waiting, complete: false };
  const { out } = await run(['run', 'show', 'r1234'], { answer });
  expect(out).toMatch(/\nok +0 +it waits for approval/);
  expect(out).toContain('`ductile run approve r1 ok` continues it.');
  expect(out).toContain('too large to show in full');
});

test('run show: what is long is cut short, unless everything is asked for', async () => {
  const answer = { ...shown, output: [{ text: 'x'.repeat(5000) }, 2] };
  const { out } = await run(['run', 'show', 'r1234'], { answer });
  expect(out).toMatch(/\noutput +\[\{"text":"x{400,500}… \(\d+ characters; -v shows all\)\n/);
  expect((await run(['run', 'show', 'r1234', '-v'], { answer })).out).toMatch(/x{5000}"\},2\]\n/);
});

test('run show: of several branches at one step, one is named by its own id', async () => {
  const why = 'it waits for approval';
  const waiting = ['s1', 's2'].map((id) => ({ step: 'ok', branch: '0.0', why, step_id: id }));
  const answer = { ...shown, status: 'running', waiting };
  const { out } = await run(['run', 'show', 'r1234'], { answer });
  expect(out).toContain('`ductile run approve r1 s1` continues it.');
});

test('pipeline run: says that a run continues after the wait', async () => {
  const answer = { ...shown, status: 'running', halt_reason: null, timeout_exceeded: true };
  const { out, code } = await run(['pipeline', 'run', 'digest'], { answer });
  expect(code).toBe(1);
  expect(out).toContain('It continues; `ductile run show r1` shows its progress.');
});

test('pipeline run: reports a duplicate, and when a delayed run is due', async () => {
  const dueAt = '2040-01-01T00:00:00.000Z';
  const later = { ...shown, status: 'queued', halt_reason: null, due_at: dueAt, dedupe_key: 'k' };
  const line = ['pipeline', 'run', 'digest', '--no-wait'];
  const { out, code } = await run(line, { answer: { ...later, duplicate: true } });
  expect(code).toBe(0);
  expect(out).toMatch(/\ndue +2040-01-01/);
  expect(out).toMatch(/\ndedupe key +k\n/);
  expect(out).toContain('nothing was started');
  expect((await run(line, { answer: later })).out).not.toContain('nothing was started');
});

test('run tree: branches stand under the step that opened them', async () => {
  const nodes = [
    { depth: 0, kind: 'foreach', name: 'each', status: 'succeeded' },
    { depth: 1, kind: 'branch', name: '0', status: 'succeeded' },
    { depth: 2, kind: 'task', name: 'work', status: 'succeeded' },
  ];
  const { out } = await run(['run', 'tree', 'r1234'], {
    answer: { run: shown, nodes, complete: true },
  });
  expect(out).toMatch(/\neach +foreach.*\n {2}\[0\] +branch.*\n {4}work +task/);
});

test('run cancel, revive and approve: a few words', async () => {
  const cancelled = { ...shown, status: 'cancelled', outcome: 'cancelled', stopping: ['j1'] };
  const stopped = await run(['run', 'cancel', 'r1234'], { answer: cancelled });
  expect(stopped).toMatchObject({
    code: 0,
    out: 'run r1 is cancelled\n1 running job is being stopped\n',
  });
  const ended = { ...shown, status: 'succeeded', outcome: 'unchanged', stopping: [] };
  expect(await run(['run', 'cancel', 'r1234'], { answer: ended })).toMatchObject({
    code: 1,
    out: 'run r1 is already succeeded; nothing to cancel\n',
  });
  const revived = { ...shown, run_id: 'r2', revived_from: 'r1', status: 'running' };
  const { out, calls } = await run(['run', 'revive', 'r1234', '--no-context'], { answer: revived });
  expect(calls).toMatchObject([['run.revive', { id: 'r1234', context: false }]]);
  expect(out).toMatch(/^run +r2\ncontinues +r1\n/);
  const answer = { run_id: 'r1', step: 'ok', approved: false, by: 'cli:me' };
  expect((await run(['run', 'reject', 'r1234', 'ok', '--why', 'no'], { answer })).out).toBe(
    'step ok of run r1 is rejected by cli:me\n',
  );
});

test('run with the name of a plugin still runs the plugin', async () => {
  const answer = { job_id: 'j1', status: 'succeeded', completed_at: WHEN };
  const { calls, code } = await run(['run', 'mail'], { answer });
  expect(code).toBe(0);
  expect(calls).toMatchObject([['plugin.run', { plugin: 'mail' }]]);
});

test('a waiting run is shown as waiting, with what it waits for', async () => {
  const approval = { kind: 'approval', step: 'ok', message: 'Send 7?', until: null };
  const runs = [
    { run_id: 'r1', pipeline: 'asks', status: 'running', waiting_for: approval },
    { run_id: 'r2', pipeline: 'works', status: 'running', waiting_for: null },
  ];
  const listed = await run(['run', 'list'], { answer: { runs, next_cursor: null } });
  expect(listed.out).toMatch(/r1 +asks +waiting +- +- +approval Send 7\? at ok/);
  expect(listed.out).toMatch(/r2 +works +running/);
  const answer = { ...shown, status: 'running', waiting_for: approval };
  const { out } = await run(['run', 'show', 'r1234'], { answer });
  expect(out).toMatch(/\nstatus +waiting\nwaits for +approval Send 7\? at ok\n/);
});

test('run show: who decided, and with which reason', async () => {
  const approvals = [
    { step: 'ok', approved: true, by: 'cli:ann', at: WHEN, reason: 'read and checked' },
  ];
  const { out } = await run(['run', 'show', 'r1234'], { answer: { ...shown, approvals } });
  expect(out).toMatch(/Approvals\n.*\nok +approved +cli:ann +\S+ +read and checked/);
});
