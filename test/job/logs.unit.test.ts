/** Attempts from a moment on, and what the core said lately. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ownerOf } from '../../src/operation/context.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { listLogs, systemLogs } from '../../src/job/logs.operations.ts';
import { makeStubEngine, runOne, type StubEngine } from '../support/stub-engine.ts';

let engine: StubEngine;

beforeEach(async () => {
  engine = await makeStubEngine();
});

afterEach(() => engine.ledger.close());

const context = () => ({ engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' as const });

async function finishJobs(count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let made = 0; made < count; made += 1) {
    const submission = {
      plugin: 'echo',
      command: 'poll',
      payload: {},
      submittedBy: 'cli',
    } as const;
    ids.push((await engine.submit({ ...submission, actor: 'cli:ann' })).jobId);
    await runOne(engine);
  }
  return ids;
}

describe('job.logs', () => {
  const ask = async (input: object): Promise<{ ids: string[]; next: unknown }> => {
    const { logs, next_cursor: next } = await invoke(listLogs, context(), input);
    return { ids: (logs as { job_id: string }[]).map(({ job_id }) => job_id), next };
  };

  test('continue where a page ended, oldest first, and end with an empty one', async () => {
    const ids = await finishJobs(5);
    const first = await ask({ since: '1h', limit: 2 });
    const second = await ask({ cursor: first.next, limit: 2 });
    const third = await ask({ cursor: second.next, limit: 2 });
    const none = await ask({ cursor: third.next, limit: 2 });
    expect([...first.ids, ...second.ids, ...third.ids]).toEqual(ids);
    // An attempt that ends later is found after the same cursor.
    expect([none.ids, none.next]).toEqual([[], third.next]);
    const [later] = await finishJobs(1);
    expect((await ask({ cursor: none.next })).ids).toEqual([later]);
  });

  test('begin at a moment, or so long ago', async () => {
    const ids = await finishJobs(2);
    expect((await ask({ since: '2026-01-01' })).ids).toEqual(ids);
    expect((await ask({ since: '2999-01-01T00:00:00Z' })).ids).toEqual([]);
    expect((await ask({ limit: 1 })).ids).toEqual(ids.slice(1));
  });

  test('without one go back from the newest, page by page, to the oldest', async () => {
    const ids = await finishJobs(5);
    const first = await ask({ limit: 2 });
    // An attempt that ends meanwhile is on no later page.
    await finishJobs(1);
    const second = await ask({ limit: 2, cursor: first.next });
    const third = await ask({ limit: 2, cursor: second.next });
    expect([...first.ids, ...second.ids, ...third.ids]).toEqual(ids.toReversed());
    expect(third.next).toBeNull();
    expect((await ask({})).next).toBeNull();
  });

  test.each([{ since: 'yesterday' }, { since: '2026-13-01' }, { cursor: 'x' }])(
    '%j',
    async (input) => {
      await expect(ask(input)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    },
  );
});

describe('system.logs', () => {
  const say = (message: string, level: 'info' | 'error' = 'info'): void =>
    engine.ring.add({
      timestamp: new Date().toISOString(),
      level,
      component: 'http',
      message,
      fields: { token: 'secret' },
    });

  test('are the latest lines, and continue after the last one', async () => {
    for (const word of ['a', 'b', 'c']) say(word);
    const first = await invoke(systemLogs, context(), { limit: 2 });
    expect(first).toMatchObject({
      process_id: engine.processId,
      last_seq: 3,
      logs: [{ message: 'b', fields: { token: '[redacted]' } }, { message: 'c' }],
    });
    say('d', 'error');
    say('e');
    const more = await invoke(systemLogs, context(), { after: 3, level: 'warn' });
    expect(more).toMatchObject({ last_seq: 5, logs: [{ message: 'd' }] });
  });

  test('a page that is full says where it ended, so that nothing is left out', async () => {
    for (const word of ['a', 'b', 'c']) say(word);
    const page = await invoke(systemLogs, context(), { after: 0, limit: 2 });
    expect(page).toMatchObject({ last_seq: 2, logs: [{ message: 'a' }, { message: 'b' }] });
    const rest = await invoke(systemLogs, context(), { after: page['last_seq'], limit: 2 });
    expect(rest).toMatchObject({ last_seq: 3, logs: [{ message: 'c' }] });
  });
});
