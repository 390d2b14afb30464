import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { Job } from '../../src/job/job.ts';
import { overlayLedger, type Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { resume } from '../support/direct.ts';
import {
  eventually,
  makePlace,
  type Setup,
  type TestInstance,
  type TestPlace,
} from '../support/instance.ts';
import { notesJob, shell, succeeds } from '../support/plugin-program.ts';

const plugins = { worker: { program: succeeds } };
const everything = { parallelism: 99, leaseMs: {}, leaseDefaultMs: 60_000 };

/** Changes the ledger while no engine runs. */
async function withLedger<T>(
  { config }: TestPlace,
  work: (ledger: Ledger) => Promise<T>,
): Promise<T> {
  const ledger = await openLedger(config.state, noRules);
  try {
    return await work(ledger);
  } finally {
    await ledger.close();
  }
}

async function makePaused(setup: Setup, jobs: number): Promise<[TestPlace, string[]]> {
  const place = await makePlace(setup);
  const ids = Array.from({ length: jobs }, () => makeId());
  await withLedger(place, async (ledger) => {
    const draft = { plugin: 'worker', command: 'poll', payload: '{}', actor: 'test' };
    await ledger.jobs.enqueue({
      jobs: ids.map((id) => ({ ...draft, id, submittedBy: 'cli', maxAttempts: 4 })),
    });
    await ledger.meta.write('paused', '1');
  });
  return [place, ids];
}

/** A process that claims so many jobs and is never heard of again. */
function crash(place: TestPlace, jobs: number): Promise<number> {
  return withLedger(place, async (ledger) => {
    const processId = makeId();
    const beat = { host: 'here', pid: 1, version: '1', slots: 9, spawner: 'native' };
    await ledger.processes.heartbeat({ ...beat, id: processId, plugins: ['worker'] });
    const known = [{ name: 'worker', ...everything }];
    await ledger.meta.write('paused', '0');
    const claimed = await ledger.jobs.claim({
      processId,
      token: makeId(),
      slots: jobs,
      plugins: known,
    });
    await ledger.meta.write('paused', '1');
    return claimed.length;
  });
}

/** Crashes with so many jobs running, and starts again, paused, so that one can look. */
async function crashAndRecover(place: TestPlace, jobs: number): Promise<TestInstance> {
  expect(await crash(place, jobs)).toBe(jobs);
  return place.start();
}

async function look({ ledger }: TestInstance, ids: readonly string[]): Promise<Job[]> {
  const jobs = await Promise.all(ids.map((id) => ledger.jobs.find(id)));
  return jobs.filter((job) => job !== undefined);
}

describe('the running jobs of a dead process', () => {
  test('are queued again at the next start, logged, and done', async () => {
    const [place, ids] = await makePaused({ plugins }, 3);
    const instance = await crashAndRecover(place, 2);
    const { records, engine, ended, attempts, ledger } = instance;
    const jobs = await look(instance, ids);
    expect(jobs.map(({ status, attempt }) => [status, attempt])).toEqual([
      ['queued', 2],
      ['queued', 2],
      ['queued', 1],
    ]);
    for (const id of ids.slice(0, 2)) {
      expect(records).toContainEqual(
        expect.objectContaining({
          level: 'warn',
          message: 'job recovered',
          plugin: 'worker',
          job_id: id,
          cause: 'engine_crash',
        }),
      );
    }
    expect(records).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        message: expect.stringContaining('recovered'),
        jobs: 2,
      }),
    );
    await resume(engine);
    for (const id of ids) {
      expect(await ended(id)).toMatchObject({ status: 'succeeded', retryCount: 0 });
    }
    const rows = await attempts(ids[0] ?? '');
    expect(rows.map(({ status, cause }) => [status, cause])).toEqual([
      ['crashed', 'engine_crash'],
      ['succeeded', 'ok'],
    ]);
    const processes = await ledger.processes.list();
    expect(processes.map(({ id }) => id)).toEqual([engine.processId]);
  });

  test("are released except those that can't be, which are logged and tried again", async () => {
    const [place, ids] = await makePaused({ plugins }, 3);
    expect(await crash(place, 3)).toBe(3);
    const [, poison = ''] = ids;
    let isWritable = false;
    const instance = await place.start({
      ledger: (real) =>
        overlayLedger(real, {
          processes: {
            reap: (request) =>
              request.closings.some(({ job }) => job.id === poison) && !isWritable
                ? Promise.reject(new Error('a row that no table takes'))
                : real.processes.reap(request),
          },
        }),
    });
    const { records, ledger, engine } = instance;
    const before = await look(instance, ids);
    expect(before.map(({ status }) => status)).toEqual(['queued', 'running', 'queued']);
    expect(records).toContainEqual(
      expect.objectContaining({
        level: 'error',
        job_id: poison,
        error: 'a row that no table takes',
      }),
    );
    isWritable = true;
    await eventually(
      'it is given back',
      async () => (await ledger.jobs.find(poison))?.status === 'queued',
    );
    await resume(engine);
    for (const id of ids) expect(await instance.ended(id)).toMatchObject({ status: 'succeeded' });
  });

  test('is charged with the crash when it ran alone', async () => {
    const [place, ids] = await makePaused({ plugins }, 1);
    const instance = await crashAndRecover(place, 1);
    const counts = { crashCount: 1, interruptCount: 0, suspect: true, retryCount: 0 };
    expect(await look(instance, ids)).toMatchObject([{ status: 'queued', ...counts }]);
  });

  test('is only a suspect after several crashes beside other jobs', async () => {
    const [place, ids] = await makePaused({ plugins }, 2);
    const once = await crashAndRecover(place, 2);
    const met = { crashCount: 0, interruptCount: 1, suspect: false };
    expect(await look(once, ids)).toMatchObject([met, met]);
    await once.close();
    const twice = await crashAndRecover(place, 2);
    const suspected = { crashCount: 0, interruptCount: 2, suspect: true };
    expect(await look(twice, ids)).toMatchObject([suspected, suspected]);
  });

  test('runs one suspect at a time; the only one in a crash is charged with it', async () => {
    const [place, ids] = await makePaused({ plugins }, 3);
    await (await crashAndRecover(place, 2)).close();
    await (await crashAndRecover(place, 2)).close();
    // A claim takes one of the two suspects, and the third job, which isn't a suspect.
    const instance = await crashAndRecover(place, 2);
    const jobs = await look(instance, ids);
    expect(jobs).toMatchObject([
      { suspect: true, crashCount: 1, interruptCount: 2 },
      { suspect: true, crashCount: 0, interruptCount: 2 },
      { suspect: false, crashCount: 0, interruptCount: 1 },
    ]);
  });

  test('is dead after it crashed the service too often', async () => {
    const setup: Setup = {
      service: { max_crashes: 2 },
      plugins: { ...plugins, alarm: { program: succeeds } },
      routes: [{ event_type: 'job.dead', to: 'alarm' }],
    };
    const [place, ids] = await makePaused(setup, 1);
    await (await crashAndRecover(place, 1)).close();
    // The second wait is longer than a test should be.
    await place.sql('update job_queue set next_retry_at = null');
    const instance = await crashAndRecover(place, 1);
    const [job] = await look(instance, ids);
    expect(job).toMatchObject({ status: 'dead', reason: 'crashes_exhausted', crashCount: 2 });
    const [alarm] = await instance.ledger.jobs.list({ parentJobId: job?.id ?? '', limit: 9 });
    await resume(instance.engine);
    expect((await instance.ended(alarm?.id ?? '')).status).toBe('succeeded');
    expect(await instance.attempts(job?.id ?? '')).toHaveLength(2);
  });

  test('are cancelled if that was requested', async () => {
    const [place, ids] = await makePaused({ plugins }, 2);
    await crash(place, 2);
    const [cancelled = ''] = ids;
    await withLedger(place, (ledger) => ledger.jobs.cancel(cancelled));
    const instance = await place.start();
    const jobs = await look(instance, ids);
    expect(jobs.map(({ status }) => status)).toEqual(['cancelled', 'queued']);
    expect((await instance.attempts(cancelled))[0]).toMatchObject({ cause: 'engine_crash' });
    expect(await instance.ledger.signals.list({ type: 'job.dead', limit: 9 })).toEqual([]);
  });
});

test('suspects run one after the other, beside the others', async () => {
  const program = shell(`
cat > /dev/null
echo begin >> ../../notes
sleep 0.05
echo end >> ../../notes
echo '{"status":"ok","result":"done"}'`);
  const [place, ids] = await makePaused({ plugins: { worker: { program } } }, 4);
  await place.sql('update job_queue set suspect = 1, interrupt_count = 2');
  const { engine, ended } = await place.start();
  await resume(engine);
  for (const id of ids) {
    expect(await ended(id)).toMatchObject({ status: 'succeeded', suspect: true });
  }
  const expected = ids.flatMap(() => ['begin', 'end']);
  expect(await place.notes()).toEqual(expected);
});

test('a process that stopped normally leaves nothing to recover', async () => {
  const place = await makePlace({ plugins: { worker: { program: notesJob } } });
  const before = await place.start();
  const { id } = await before.run('worker');
  await before.close();
  const after = await place.start();
  expect(await after.ledger.jobs.find(id)).toMatchObject({ status: 'succeeded', attempt: 1 });
  const warnings = after.records.filter(({ level }) => level === 'warn');
  expect(warnings.filter(({ component }) => component !== 'config')).toEqual([]);
});
