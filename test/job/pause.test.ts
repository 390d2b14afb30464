/** An acknowledged pause binds every host and every tenant, even one that has not heard of it. */
import { expect, test } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { pause, resume } from '../support/direct.ts';
import { databases, eventually, makePlace, type TestInstance } from '../support/instance.ts';
import { notesJob } from '../support/plugin-program.ts';
import { makeTenant } from '../support/tenant-ledgers.ts';

const JOBS = 300;
/** No host looks by itself while the test lasts: what stops the others is the claim alone. */
const service = { max_workers: 4, poll_interval: '1h' };
const plugins = { worker: { program: notesJob, settings: { shared: true, parallelism: 4 } } };
const draft = { plugin: 'worker', command: 'poll', payload: {}, submittedBy: 'api' } as const;

async function submitMany(engine: Engine): Promise<void> {
  await Promise.all(Array.from({ length: JOBS }, () => engine.submit({ ...draft, actor: 'test' })));
}

function countEnded(ledger: Ledger): Promise<number> {
  return ledger.jobs.count({ status: ['succeeded'], limit: JOBS });
}

/** Pauses in the middle of the work and expects that nothing starts after the response. */
async function expectStill(root: TestInstance, ledger: Ledger): Promise<void> {
  await eventually('some jobs have ended', async () => (await countEnded(ledger)) > 20);
  await pause(root.engine);
  const now = await ledger.now();
  await eventually(
    'what was running has ended',
    async () => (await ledger.jobs.countQueue()).running === 0,
  );
  const ended = await countEnded(ledger);
  expect(ended).toBeLessThan(JOBS);
  // Each of these would claim more, if a claim were possible.
  for (let look = 0; look < 5; look += 1) {
    ledger.hint();
    await root.submit('worker');
  }
  const started = await ledger.attempts.list({ limit: JOBS + 10 });
  expect(started.filter(({ startedAt }) => (startedAt ?? '') > now)).toEqual([]);
  expect(await countEnded(ledger)).toBe(ended);
  await resume(root.engine);
  await eventually('all jobs have ended', async () => {
    ledger.hint();
    return (await countEnded(ledger)) >= JOBS;
  });
}

test('no host starts a job after a pause was acknowledged on another', async () => {
  const place = await makePlace({ database: 'postgres', plugins, service });
  const [one, two] = [await place.start(), await place.start()];
  await submitMany(two.engine);
  await expectStill(one, one.ledger);
});

test.each(databases)(
  'no tenant on %s starts a job after a pause of the system',
  async (database) => {
    const place = await makePlace({ database, plugins, service, tenants: { trust: 'shared' } });
    const one = await place.start();
    const two = database === 'postgres' ? await place.start() : one;
    const slug = await makeTenant(one.ledger, place.config);
    const visit = await two.engine.tenants?.visit(slug);
    if (visit === undefined) throw new Error('the engine has no tenants');
    try {
      await submitMany(visit.engine);
      await expectStill(one, visit.engine.ledger);
    } finally {
      visit.end();
    }
  },
);
