/** `signal export` writes all matching signals, one per line. */
import { expect, test } from 'vitest';
import { run } from '../support/fake-cli.ts';

function signal(id: string) {
  return {
    signal_id: id,
    type: 'order.paid',
    source: 'shop',
    subject_type: 'order',
    subject_id: '42',
    data: {},
    correlation_id: 'c',
    causation_id: null,
    occurred_at: '2026-11-15T12:00:00.000Z',
    inserted_at: '2026-11-15T12:00:00.000Z',
  };
}

function pages(_: string, input: unknown) {
  const { cursor } = input as { cursor?: string };
  if (cursor === undefined) return { signals: [signal('1'), signal('2')], next_cursor: 'two' };
  return { signals: [signal('3')], next_cursor: null };
}

const parse = (out: string) =>
  out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);

test('signal export reads all pages, oldest first', async () => {
  const argv = ['signal', 'export', '--type', 'order.paid', '--correlation-id', 'c'];
  const { out, code, calls } = await run(argv, { answer: pages });
  expect(code).toBe(0);
  expect(parse(out)).toEqual([signal('1'), signal('2'), signal('3')]);
  const request = { type: 'order.paid', correlation_id: 'c', order: 'oldest' };
  expect(calls).toMatchObject([
    ['signal.list', request],
    ['signal.list', { ...request, cursor: 'two' }],
  ]);
});

test('signal export writes CloudEvents, or nothing at all', async () => {
  const { out } = await run(['signal', 'export', '--cloudevents'], { answer: pages });
  expect(parse(out)).toMatchObject([
    { specversion: '1.0', id: '1', subject: 'order/42' },
    { id: '2' },
    { id: '3' },
  ]);
  const empty = await run(['signal', 'export'], { answer: { signals: [], next_cursor: null } });
  expect(empty.out).toBe('');
});

test('a signal is shown with its consequences', async () => {
  const answer = {
    ...signal('1'),
    visibility: 'internal',
    jobs: [
      {
        job_id: 'job-1',
        plugin: 'mail',
        command: 'handle',
        status: 'queued',
        submitted_by: 'route',
      },
    ],
    runs: [],
    signals: [],
  };
  const { out } = await run(['signal', 'show', '0199a1b2'], { answer });
  expect(out).toMatch(/subject +order\/42/);
  expect(out).toMatch(/job-1 +mail +handle +queued +route/);
  expect(out).not.toContain('Runs');
});

test('reports and replays say what became of them', async () => {
  const emit = async (created: boolean) =>
    (await run(['signal', 'emit', 'a.b'], { answer: { signal_id: 's', created } })).out;
  expect(await emit(true)).toBe('signal s\n');
  expect(await emit(false)).toContain('reported before');
  const none = { skipped: 0, unopened: 0 };
  const counts = { directive_id: 'd', signals: 3, jobs: 2, runs: 1, unhandled: 1, ...none };
  const replay = async (answer: object) =>
    (await run(['signal', 'replay', '--type', 'a.b'], { answer: { ...answer } })).out;
  expect(await replay(counts)).toMatch(
    /replayed: 3\njobs started: 2, runs started: 1\nNothing handles 1 of them/,
  );
  expect(await replay({ ...counts, skipped: 4 })).toContain('4 (--force repeats them)');
  expect(await replay({ ...counts, unopened: 5 })).toContain('cannot be decrypted: 5');
  expect(await replay({ ...counts, signals: 0 })).toMatch(/nothing was started/);
});
