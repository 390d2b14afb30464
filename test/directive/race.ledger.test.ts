/** Two that ask for the same change at once, from two connections. */
import { switchPause } from '../../src/job/plugin-state.sql.ts';
import { createToken } from '../../src/access/token.sql.ts';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { draftRetry } from '../../src/job/bulk.ts';
import { openMeeting, runTogether } from '../support/ledger/barrier.ts';
import { fail, keyed, pausing, settleOne, startOne } from '../support/ledger/drafts.ts';

describe('two that direct', () => {
  test('the same toggle: it is done once, and the other one hears of it', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await barrier.hold(`select 1 from ledger_meta where key = 'epoch' for update`);
    const answers = await runTogether(
      barrier,
      () => ledger.directives.create(pausing()),
      () => other.directives.create(pausing()),
    );
    expect(answers.map(({ verdict }) => verdict).toSorted()).toEqual(['recorded', 'repeated']);
    expect(new Set(answers.map(({ directive }) => directive.id)).size).toBe(1);
    expect(await ledger.signals.list({ limit: 9 })).toHaveLength(1);
  });

  test('something and its opposite: both are done, one after the other', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await barrier.hold(`select 1 from ledger_meta where key = 'epoch' for update`);
    const resuming = pausing({ type: 'system.resume' }, (tx) => switchPause(tx, false));
    const answers = await runTogether(
      barrier,
      () => ledger.directives.create(pausing()),
      () => other.directives.create(resuming),
    );
    expect(answers.map(({ verdict }) => verdict)).toEqual(['recorded', 'recorded']);
    const [last] = await ledger.directives.list({ limit: 1 });
    const paused = (await ledger.meta.read('paused')) === '1';
    expect(paused).toBe(last?.type === 'system.pause');
  });

  test('with one key something else: one is done, the other refused', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await barrier.hold(`select 1 from ledger_meta where key = 'epoch' for update`);
    const ask = (params: string) => pausing({ params, sameness: { key: 'mine' } });
    const answers = await runTogether(
      barrier,
      () => ledger.directives.create(ask('{"a":1}')),
      () => other.directives.create(ask('{"a":2}')),
    );
    expect(answers.map(({ verdict }) => verdict).toSorted()).toEqual(['mismatch', 'recorded']);
    expect(await ledger.directives.list({ limit: 9 })).toHaveLength(1);
  });

  test('a token of the same name: one is made', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await barrier.hold(`select 1 from ledger_meta where key = 'epoch' for update`);
    const ask = () => {
      const id = makeId();
      const may = { role: 'owner', scopes: ['*'] } as const;
      const token = { id, name: 'deploy', digest: id, ...may, expiresInMs: undefined };
      const draft = { type: 'token.create', target: 'token:deploy', sameness: 'each' } as const;
      return pausing(draft, (tx, actor) => createToken(tx, token, actor));
    };
    const answers = await runTogether(
      barrier,
      () => ledger.directives.create(ask()),
      () => other.directives.create(ask()),
    );
    const ends = answers.map(({ directive }) => directive.errorCode ?? 'made');
    expect(ends.toSorted()).toEqual(['TOKEN_EXISTS', 'made']);
    expect(await ledger.tokens.list()).toHaveLength(1);
  });
});

test('two concurrent retries of one job create one job, and both name it', async () => {
  const { ledger, other, barrier } = await openMeeting();
  const old = await startOne(ledger, 'p1');
  await settleOne(ledger, fail(old));
  const retry = () => ({
    of: old.id,
    job: draftRetry(old, { id: makeId(), actor: 'ann', maxAttempts: 2 }),
  });
  await barrier.hold('select 1 from job_queue for update');
  const done = await runTogether(
    barrier,
    () => ledger.jobs.retryMany([retry()]),
    () => other.jobs.retryMany([retry()]),
  );
  const results = done.flatMap((one) => one.results);
  const named = results.map((result) => ('jobId' in result ? result.jobId : ''));
  expect(new Set(named).size).toBe(1);
  expect(results.map(({ kind }) => kind)).toContain('under_way');
  expect((await ledger.jobs.countQueue()).ready).toBe(1);
});

test('only one of two concurrent ends of a directive counts', async () => {
  const { ledger, other, barrier } = await openMeeting();
  const request = pausing({ sameness: 'each' }, 'process');
  const { directive } = await ledger.directives.create(request);
  await barrier.hold('select 1 from directives for update');
  const own = { id: directive.id, processId: 'p1' };
  const died = { status: 'failed', code: 'DIRECTIVE_FAILED', error: 'it died' } as const;
  const closed = await runTogether(
    barrier,
    () =>
      ledger.directives.close({
        ...own,
        end: { status: 'completed', result: {} },
        ...request.ends.completed,
      }),
    () => other.directives.close({ ...own, end: died, ...request.ends.failed(died) }),
  );
  expect(closed.toSorted()).toEqual([false, true]);
  const [signal] = await ledger.signals.list({ limit: 9 });
  expect(signal?.type).toBe(`directive.${(await ledger.directives.find(directive.id))?.status}`);
});

test('two concurrent directives with one key work under one id', async () => {
  const { ledger, other, barrier } = await openMeeting();
  await barrier.hold(
    `insert into idempotency_keys values ('api', 'POST /a', 'k', 'd', 'x', null, null, 'now')`,
  );
  const answers = await runTogether(
    barrier,
    () => ledger.idempotencyKeys.open(keyed('k')),
    () => other.idempotencyKeys.open(keyed('k')),
  );
  expect(answers[0]).toEqual(answers[1]);
});
