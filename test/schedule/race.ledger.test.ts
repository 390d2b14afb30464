/** Hosts that fire and settle at once, from two connections, held at the place where they meet. */
import { expect, test } from 'vitest';
import { openMeeting, runTogether } from '../support/ledger/barrier.ts';
import {
  due,
  dueAgain,
  entry,
  firing,
  fireOne,
  NOW,
  startFired,
} from '../support/ledger/schedules.ts';
import { only, range } from '../support/ledger/bench.ts';
import { claimAs, fail, settleOne, succeed } from '../support/ledger/drafts.ts';

test('two hosts fire the same slot: one does, and the other learns of it', async () => {
  const { ledger, other, barrier } = await openMeeting();
  await ledger.schedules.sync([entry()]);
  const seen = only(await due(ledger));
  await barrier.hold('select 1 from schedules for update');
  const answers = await runTogether(
    barrier,
    () => ledger.schedules.fire({ now: NOW, firings: [firing(seen)] }),
    () => other.schedules.fire({ now: NOW, firings: [firing(seen)] }),
  );
  expect(answers.map((answer) => only(answer).verdict).sort()).toEqual(['fired', 'lost']);
  expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(1);
});

test('two that fire many slots in opposite order do not wait for each other', async () => {
  const { ledger, other, barrier } = await openMeeting();
  await ledger.schedules.sync(range(8).map((index) => entry({ scheduleId: `s${index}` })));
  const seen = await due(ledger);
  await barrier.hold(`select 1 from schedules where schedule_id = 's4' for update`);
  const answers = await runTogether(
    barrier,
    () => ledger.schedules.fire({ now: NOW, firings: seen.map((one) => firing(one)) }),
    () => other.schedules.fire({ now: NOW, firings: seen.toReversed().map((one) => firing(one)) }),
  );
  const fired = answers.flat().filter(({ verdict }) => verdict === 'fired');
  expect(fired).toHaveLength(8);
  expect(await ledger.jobs.list({ limit: 99 })).toHaveLength(8);
});

test('two that let a probe through: there is one probe', async () => {
  const { ledger, other, barrier, sql } = await openMeeting();
  await ledger.schedules.sync([entry({ scheduleId: 'a' }), entry({ scheduleId: 'b' })]);
  const [a, b] = await due(ledger);
  if (a === undefined || b === undefined) throw new Error('two are due');
  await ledger.schedules.fire({ now: NOW, firings: [firing(a)] });
  await settleOne(ledger, fail(await startFired(ledger)));
  await sql(`update circuit_breakers set state = 'open', opened_at = '2020-01-01T00:00:00.000Z'`);
  await dueAgain(sql);
  const [one, two] = await due(ledger);
  if (one === undefined || two === undefined) throw new Error('two are due');
  await barrier.hold('select 1 from circuit_breakers for update');
  const answers = await runTogether(
    barrier,
    () => ledger.schedules.fire({ now: NOW, firings: [firing(one)] }),
    () => other.schedules.fire({ now: NOW, firings: [firing(two)] }),
  );
  const results = answers.map((answer) => only(answer).reason ?? only(answer).verdict);
  expect(results.sort()).toEqual(['circuit_open', 'fired']);
});

test('firing with cancel and settling the same job at once both succeed', async () => {
  const { ledger, other, barrier, sql, job } = await openMeeting();
  await ledger.schedules.sync([entry()]);
  await fireOne(ledger);
  const running = await startFired(ledger);
  await dueAgain(sql);
  const guard = { ifRunning: 'cancel', outstandingMax: 1 } as const;
  const firingRequest = firing(only(await due(ledger)), { guard });
  await barrier.hold('select 1 from circuit_breakers for update');
  const [fired, settled] = await runTogether(
    barrier,
    () => ledger.schedules.fire({ now: NOW, firings: [firingRequest] }),
    () => settleOne(other, succeed(running)),
  );
  expect(only(fired).verdict).toBe('fired');
  expect(settled).toBe('settled');
  expect((await job(running.id)).status).toBe('succeeded');
});

test('two that settle failures of one command: both are counted', async () => {
  const { ledger, other, barrier } = await openMeeting();
  await ledger.schedules.sync([entry({ scheduleId: 'a' }), entry({ scheduleId: 'b' })]);
  const firings = (await due(ledger)).map((one) => firing(one));
  await ledger.schedules.fire({ now: NOW, firings });
  const [one, two] = await claimAs(ledger, 'p1', { slots: 2 });
  if (one === undefined || two === undefined) throw new Error('two run');
  await barrier.hold('select 1 from circuit_breakers for update');
  await runTogether(
    barrier,
    () => settleOne(ledger, fail(one)),
    () => settleOne(other, fail(two)),
  );
  expect(await ledger.breakers.list({})).toMatchObject([{ state: 'open', failureCount: 2 }]);
});

test('firing does not wait for the settling of the last job', async () => {
  const { ledger, barrier, sql } = await openMeeting();
  await ledger.schedules.sync([entry()]);
  await fireOne(ledger);
  await startFired(ledger);
  await dueAgain(sql);
  await barrier.hold('select 1 from job_queue for update');
  expect(await fireOne(ledger)).toMatchObject({ verdict: 'skipped', reason: 'already_running' });
  await barrier.lift();
});

test('many schedules that cancel by firing lock jobs in the order of those that settle them', async () => {
  const { ledger, other, barrier, sql } = await openMeeting();
  const ids = range(6).map((index) => `s${index}`);
  await ledger.schedules.sync(ids.map((scheduleId) => entry({ scheduleId })));
  const seen = (await due(ledger)).toReversed();
  for (const one of seen) await ledger.schedules.fire({ now: NOW, firings: [firing(one)] });
  const running = await claimAs(ledger, 'p1', { slots: 6 });
  expect(running).toHaveLength(6);
  await dueAgain(sql);
  const guard = { ifRunning: 'cancel', outstandingMax: 1 } as const;
  const firings = (await due(ledger)).map((one) => firing(one, { guard }));
  const middle = running[3]?.id;
  await barrier.hold('select 1 from job_queue where id = $1 for update', [middle]);
  const both = Promise.all([
    ledger.schedules.fire({ now: NOW, firings }),
    other.jobs.settle(running.toReversed().map((job) => succeed(job))),
  ]);
  await barrier.untilWaiting(2);
  const lifted = performance.now();
  await barrier.lift();
  const [fired] = await both;
  expect(fired.map(({ verdict }) => verdict)).toEqual(ids.map(() => 'fired'));
  // PostgreSQL checks for deadlocks after a second; there was none.
  expect(performance.now() - lifted).toBeLessThan(1000);
});
