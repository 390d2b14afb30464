/** Repeated reads: `--watch`, `logs --follow`, and the progress of running work. */
import { describe, expect, test, vi } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import type { CliIo } from '../../src/cli/host.ts';
import { withProgress } from '../../src/cli/watch.ts';
import { job, NOW, run } from '../support/fake-cli.ts';

/** Ctrl-C after so many looks. */
function endAfter(looks: number): Partial<CliIo> {
  const over = new AbortController();
  let left = looks;
  return {
    interruption: () => over.signal,
    pause: () => {
      left -= 1;
      if (left <= 0) over.abort();
      return Promise.resolve();
    },
  };
}

const listed = (...statuses: string[]) => {
  let at = 0;
  return () => ({
    jobs: [{ ...job, status: statuses[at++] ?? statuses.at(-1) }],
    next_before: null,
  });
};

describe('--watch', () => {
  test('draws a terminal again, within its size', async () => {
    const io = { ...endAfter(2), isTTY: true, columns: 90, rows: 5 };
    const { out, code, calls } = await run(['job', 'list', '--watch'], {
      answer: listed('running', 'succeeded'),
      io,
    });
    expect([code, calls.length]).toEqual([0, 2]);
    const screens = out.split('\u001b[H\u001b[J').slice(1);
    expect(screens).toHaveLength(2);
    expect(screens[0]).toContain('running');
    expect(screens[1]).toContain('succeeded');
    for (const line of screens.flatMap((screen) => screen.split('\n'))) {
      expect(line.length).toBeLessThanOrEqual(90);
    }
    for (const screen of screens) expect(screen.trimEnd().split('\n').length).toBeLessThan(5);
  });

  test('gives anything else one line for each change', async () => {
    const { out } = await run(['job', 'list', '--watch', '5s'], {
      answer: listed('queued', 'queued', 'running', 'succeeded', 'succeeded'),
      io: endAfter(5),
    });
    const lines = out.trimEnd().split('\n');
    expect(lines.map((line) => /queued|running|succeeded/.exec(line)?.[0])).toEqual([
      'queued',
      'running',
      'succeeded',
    ]);
  });

  test('gives JSON as one document on each line, when it changed', async () => {
    const { out } = await run(['job', 'list', '--watch', '--json'], {
      answer: listed('queued', 'queued', 'running'),
      io: endAfter(3),
    });
    const documents = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
    expect(documents).toMatchObject([
      { jobs: [{ status: 'queued' }] },
      { jobs: [{ status: 'running' }] },
    ]);
  });

  test('waits for a server that is away, and says so once', async () => {
    const away = new DuctileError('SERVER_UNREACHABLE', 'nobody answers');
    const answers = [away, away, { jobs: [job], next_before: null }];
    const { out, err, code } = await run(['job', 'list', '--watch'], {
      answer: () => answers.shift() ?? {},
      io: endAfter(3),
    });
    expect(code).toBe(0);
    expect(err.match(/nobody answers/g)).toHaveLength(1);
    expect(out).toContain('mail');
  });

  test('ends with what will not pass by itself', async () => {
    const answer = new DuctileError('INPUT_INVALID', 'limit must be at least 1');
    expect((await run(['job', 'list', '--watch'], { answer, io: endAfter(9) })).code).toBe(2);
  });

  test.each(['soon', '5', '10ms'])('does not take %s for an interval', async (interval) => {
    const { code, err, calls } = await run(['job', 'list', '--watch', interval]);
    expect([code, calls]).toEqual([2, []]);
    expect(err).toContain('--watch 5s');
  });

  test('is there where it helps, and nowhere else', async () => {
    for (const line of ['job list', 'queue list', 'system status', 'schedule list']) {
      expect((await run([...line.split(' '), '--help'])).out).toContain('--watch');
    }
    expect((await run(['job', 'show', '--help'])).out).not.toContain('--watch');
  });
});

describe('logs', () => {
  const attempt = (id: string, second: number, more = {}) => ({
    log_id: id,
    job_id: 'j',
    plugin: 'mail',
    command: 'poll',
    attempt: 1,
    status: 'failed',
    cause: 'exit',
    last_error: 'no',
    stderr: 'line one\nline \u001b[31mtwo',
    completed_at: `2026-01-02T03:09:${String(second).padStart(2, '0')}.000Z`,
    ...more,
  });

  test('begin with the latest lines of plugins, oldest first', async () => {
    const logs = [attempt('b', 40), attempt('a', 30)];
    const { out, calls } = await run(['logs', 'mail', '-n', '2'], { answer: { logs } });
    expect(calls).toEqual([['job.logs', { plugin: 'mail', limit: 2 }]]);
    expect(out.indexOf('03:09:30')).toBeLessThan(out.indexOf('03:09:40'));
    expect(out).toContain('failed (exit)  no\n  | line one\n  | line \\u001b[31mtwo\n');
  });

  test('since a moment are all, or the latest of them', async () => {
    const answer = { logs: [attempt('a', 30), attempt('b', 40), attempt('c', 41)] };
    const ids = async (...more: readonly string[]): Promise<string[]> => {
      const { out } = await run(['logs', '--since', '1h', '--json', ...more], { answer });
      return (JSON.parse(out) as typeof answer).logs.map(({ log_id }) => log_id);
    };
    expect(await ids()).toEqual(['a', 'b', 'c']);
    expect(await ids('-n', '2')).toEqual(['b', 'c']);
    expect(await ids('-n', '9')).toEqual(['a', 'b', 'c']);
  });

  test('follow new attempts, each once, even if it became visible late', async () => {
    const pages = [
      { logs: [attempt('b', 40)] },
      { logs: [attempt('b', 40), attempt('c', 41)] },
      // `a` ended before `b` but was committed after it.
      { logs: [attempt('a', 39), attempt('b', 40), attempt('c', 41)] },
    ];
    const { out, calls, code } = await run(['logs', '--follow', '--json'], {
      answer: () => pages.shift() ?? { logs: [] },
      io: endAfter(3),
    });
    expect(code).toBe(0);
    const ids = out
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { log_id: string }).log_id);
    expect(ids).toEqual(['b', 'c', 'a']);
    expect(calls[1]).toMatchObject(['job.logs', { since: '2026-01-02T03:09:30.000Z' }]);
  });

  test('from the service itself need it, and continue after the last line', async () => {
    const path = '/nowhere';
    const local = await run(['logs', '--core']);
    expect([local.code, local.calls, local.hostCalls]).toEqual([
      1,
      [],
      [['findSocket', undefined]],
    ]);
    expect(local.err).toContain('needs a service, and none runs here');
    const gone = await run(['logs', '--core'], {
      host: { findSocket: () => Promise.resolve({ socketPath: path }) },
    });
    expect(gone.err).toContain('SERVER_UNREACHABLE');
  });

  test.each([
    [['logs', 'mail', '--core'], 'a plugin'],
    [['logs', '--level', 'warn'], '--level'],
  ])('%j is refused', async (argv, words) => {
    const { code, err } = await run(argv);
    expect([code, err]).toEqual([2, expect.stringContaining(words)]);
  });
});

describe('signal tail --follow', () => {
  const event = (type: string) => ({ type, source: 'shop', occurred_at: '2026', cursor: type });
  const page = (cursor: string, types: readonly string[], more = false) => ({
    events: types.map(event),
    cursor,
    more,
    pending: false,
    reset: false,
  });

  test('continues after its cursor, at once if there is more', async () => {
    const pages = [page('a', ['one.seen']), page('b', ['two.seen'], true), page('c', [])];
    let at = 0;
    const { out, code, calls } = await run(['signal', 'tail', '-f', '--type', 'seen'], {
      answer: () => pages[at++] ?? page('c', []),
      io: endAfter(2),
    });
    expect(code).toBe(0);
    expect(out).toBe('2026  one.seen  shop  -\n2026  two.seen  shop  -\n');
    const type = ['seen'];
    expect(calls).toEqual([
      ['signal.tail', { type }],
      ['signal.tail', { type, after: 'a' }],
      ['signal.tail', { type, after: 'b' }],
    ]);
  });

  test('waits for a server that is away, and writes JSON lines', async () => {
    let looks = 0;
    const { out, err } = await run(['signal', 'tail', '--follow', '--json'], {
      answer: () => {
        looks += 1;
        if (looks === 2) throw new DuctileError('SERVER_UNREACHABLE', 'away');
        return page('a', looks === 3 ? ['one.seen'] : []);
      },
      io: endAfter(3),
    });
    expect(JSON.parse(out)).toMatchObject({ type: 'one.seen' });
    expect(err).toContain('away');
  });
});

describe('progress', () => {
  const makeIo = (isErrTTY: boolean) => {
    const written: string[] = [];
    const io = {
      isErrTTY,
      now: () => Date.now(),
      stderr: { write: (text: string) => written.push(text) },
    } as unknown as CliIo;
    return { io, written };
  };

  test('shows on a terminal after a moment, and is wiped at the end', async () => {
    vi.useFakeTimers({ now: NOW });
    try {
      const { io, written } = makeIo(true);
      const work = withProgress(io, 'plugin run', async () => {
        await vi.advanceTimersByTimeAsync(2200);
        return 7;
      });
      expect(await work).toBe(7);
      expect(written.length).toBeGreaterThan(5);
      expect(written.at(-2)).toMatch(/plugin run 2s$/);
      expect(written.at(-1)).toBe('\r\u001b[K');
    } finally {
      vi.useRealTimers();
    }
  });

  test('is silent without a terminal, and for quick commands', async () => {
    const notTerminal = makeIo(false);
    await withProgress(notTerminal.io, 'x', () => Promise.resolve());
    const quick = makeIo(true);
    await withProgress(quick.io, 'x', () => Promise.resolve());
    expect([notTerminal.written, quick.written]).toEqual([[], []]);
  });
});
