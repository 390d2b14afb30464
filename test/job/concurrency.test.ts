import { describe, expect, test } from 'vitest';
import { pause, resume } from '../support/direct.ts';
import { databases, eventually, makePlace, type TestPlace } from '../support/instance.ts';
import { notesJob, python, shell, succeeds } from '../support/plugin-program.ts';

/** Notes its begin and its end, and takes long enough for others to be there at the same time. */
const takesTime = shell(`
cat > /dev/null
echo "begin \${PWD##*/}" >> ../../notes
sleep 0.05
echo "end \${PWD##*/}" >> ../../notes
echo '{"status":"ok","result":"done"}'`);

/** The maximum number of jobs that ran at the same time, in total or of one plugin. */
async function peakOf(place: TestPlace, plugin = ''): Promise<number> {
  let now = 0;
  let peak = 0;
  for (const line of await place.notes()) {
    if (!line.endsWith(plugin)) continue;
    now += line.startsWith('begin') ? 1 : -1;
    peak = Math.max(peak, now);
  }
  expect(now).toBe(0);
  return peak;
}

function times<T>(count: number, make: (n: number) => T): T[] {
  return Array.from({ length: count }, (_none, n) => make(n));
}

describe.each(databases)('on %s', (database) => {
  test('never more attempts run than there are workers', async () => {
    const plugins = { one: { program: takesTime }, two: { program: takesTime } };
    const place = await makePlace({ database, plugins, service: { max_workers: 3 } });
    const { run } = await place.start();
    const jobs = await Promise.all(times(20, (n) => run(n % 2 === 0 ? 'one' : 'two')));
    expect(jobs.every(({ status }) => status === 'succeeded')).toBe(true);
    expect(await peakOf(place)).toBe(3);
  });

  test('a plugin has its own limit', async () => {
    const plugins = { one: { program: takesTime, settings: { parallelism: 2 } } };
    const place = await makePlace({ database, plugins, service: { max_workers: 6 } });
    const { run } = await place.start();
    await Promise.all(times(12, () => run('one')));
    expect(await peakOf(place)).toBe(2);
  });

  test('a plugin that is not safe to run beside itself runs alone', async () => {
    const manifest = 'concurrency_safe: false';
    const plugins = {
      careful: { program: takesTime, manifest },
      bold: { program: takesTime, manifest, settings: { parallelism: 2 } },
    };
    const place = await makePlace({ database, plugins, service: { max_workers: 6 } });
    const { run } = await place.start();
    await Promise.all(times(16, (n) => run(n % 2 === 0 ? 'careful' : 'bold')));
    expect(await peakOf(place, 'careful')).toBe(1);
    expect(await peakOf(place, 'bold')).toBe(2);
  });

  test('a plugin that is full holds up no other', async () => {
    const stuck = python('note(payload); wait_for("stuck"); ok()');
    const plugins = {
      stuck: { program: stuck, settings: { parallelism: 1 } },
      free: { program: succeeds },
    };
    const place = await makePlace({ database, plugins, service: { max_workers: 2 } });
    const { submit, run, ended } = await place.start();
    const waiting = await Promise.all(times(10, () => submit('stuck')));
    await eventually('one is stuck', async () => (await place.notes()).length === 1);
    for (const { status } of await Promise.all(times(10, () => run('free')))) {
      expect(status).toBe('succeeded');
    }
    expect(await place.notes()).toHaveLength(1);
    await place.openGate('stuck');
    for (const id of waiting) expect((await ended(id)).status).toBe('succeeded');
  });

  test('a single worker claims jobs in the order they came', async () => {
    const plugins = { one: { program: notesJob }, two: { program: notesJob } };
    const place = await makePlace({ database, plugins, service: { max_workers: 1 } });
    const { submit, ended, engine } = await place.start();
    await pause(engine);
    const ids: string[] = [];
    for (const n of times(30, (index) => index)) {
      ids.push(await submit(n % 3 === 0 ? 'one' : 'two'));
    }
    await resume(engine);
    for (const id of ids) await ended(id);
    expect(await place.notes()).toEqual(ids);
  });
});

test('the status shows what runs', async () => {
  const program = python('wait_for("go"); ok()');
  const place = await makePlace({ plugins: { worker: { program } }, service: { max_workers: 2 } });
  const { submit, ended, engine } = await place.start();
  expect(engine.status()).toMatchObject({
    state: 'running',
    slots: 2,
    running: [],
    plugins: 1,
    processId: engine.processId,
  });
  const id = await submit('worker');
  await eventually('it runs', () => engine.status().running.length === 1);
  expect(engine.status().running).toEqual([{ jobId: id, plugin: 'worker', command: 'poll' }]);
  await place.openGate('go');
  await ended(id);
  await eventually('nothing runs', () => engine.status().running.length === 0);
});
