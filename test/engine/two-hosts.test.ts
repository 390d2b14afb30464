import { noRules } from '../../src/ledger/rules.ts';
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { pause, resume } from '../support/direct.ts';
import { eventually, makePlace, type LogRecord, type TestPlace } from '../support/instance.ts';
import { notesJob, python, shell, waitsForGate } from '../support/plugin-program.ts';

const database = 'postgres';

test('two hosts share the work, and each job is done once', async () => {
  const plugins = { worker: { program: notesJob } };
  const place = await makePlace({ database, plugins, service: { max_workers: 3 } });
  const [one, two] = [await place.start(), await place.start()];
  await pause(one.engine);
  await eventually('both are paused', () => two.engine.status().state === 'paused');
  const ids = await Promise.all(Array.from({ length: 200 }, () => one.submit('worker')));
  await resume(one.engine);
  for (const id of ids) expect((await two.ended(id)).status).toBe('succeeded');
  expect((await place.notes()).sort()).toEqual([...ids].sort());
  const rows = await one.ledger.attempts.listByJob(ids);
  expect(rows).toHaveLength(200);
  const workers = new Set(rows.map(({ processId }) => processId));
  expect(workers).toEqual(new Set([one.engine.processId, two.engine.processId]));
});

test('the limit of a plugin holds over all hosts', async () => {
  const program = shell(`
cat > /dev/null
echo 1 >> ../../notes
sleep 0.05
echo -1 >> ../../notes
echo '{"status":"ok","result":"done"}'`);
  const plugins = { worker: { program, settings: { parallelism: 2 } } };
  const place = await makePlace({ database, plugins });
  const [one, two] = [await place.start(), await place.start()];
  const submitted = Array.from({ length: 20 }, (_none, n) =>
    (n % 2 === 0 ? one : two).submit('worker'),
  );
  for (const id of await Promise.all(submitted)) {
    expect((await one.ended(id)).status).toBe('succeeded');
  }
  let running = 0;
  const counts = (await place.notes()).map((change) => (running += Number(change)));
  expect(Math.max(...counts)).toBe(2);
});

test('a host wakes another that has room', async () => {
  const place = await makePlace({
    database,
    plugins: { worker: { program: waitsForGate } },
    service: { max_workers: 1, poll_interval: '1h' },
  });
  const [one, two] = [await place.start(), await place.start()];
  await place.openGate('1');
  const first = await one.submit('worker');
  const second = await one.submit('worker');
  expect((await one.ended(first)).status).toBe('succeeded');
  expect((await two.ended(second)).status).toBe('succeeded');
});

test('a host without a heartbeat is presumed dead, and its late result is discarded', async () => {
  const place = await makePlace({
    database,
    plugins: { worker: { program: waitsForGate } },
    service: { max_workers: 1, heartbeat_interval: '1h', reap_after: '3h' },
  });
  const silent = await place.start();
  const id = await silent.submit('worker');
  await eventually('it runs', async () => (await place.notes()).length === 1);
  const quick = { heartbeat_interval: '100ms', reap_after: '2s' };
  const other = await (await place.vary({ service: quick })).start();
  await place.openGate('2');
  const job = await other.ended(id);
  expect(job).toMatchObject({ status: 'succeeded', attempt: 2, retryCount: 0, crashCount: 1 });
  await place.openGate('1');
  await eventually('the late result is discarded', () =>
    silent.records.some(({ message }) => message.startsWith('a result came after its claim')),
  );
  const rows = await other.attempts(id);
  expect(rows.map(({ status, cause, processId }) => [status, cause, processId])).toEqual([
    ['crashed', 'engine_crash', silent.engine.processId],
    ['succeeded', 'ok', other.engine.processId],
  ]);
  expect(other.records).toContainEqual(
    expect.objectContaining({ level: 'warn', message: 'job recovered', job_id: id }),
  );
});

interface EngineProcess {
  readonly child: ChildProcess;
  readonly records: LogRecord[];
}

/** Starts an engine in a separate process, and collects its log lines. */
async function startProcess({ config }: TestPlace): Promise<EngineProcess> {
  const program = join(import.meta.dirname, '../support/engine-process.ts');
  const options = ['--disable-warning=ExperimentalWarning', program, config.file];
  const child = spawn(process.execPath, options, { stdio: ['ignore', 'pipe', 'inherit'] });
  const records: LogRecord[] = [];
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = `${rest}${text}`.split('\n');
    rest = lines.pop() ?? '';
    records.push(...lines.map((line) => JSON.parse(line) as LogRecord));
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGCONT');
    child.kill('SIGTERM');
    await ended;
  });
  await eventually('the process is ready', () => {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
    return records.some(({ message }) => message === 'engine is ready');
  });
  return { child, records };
}

test('a process that is stopped loses its work before others take it', async () => {
  const program = python(`
if attempt == 2:
    [(_, _, first)] = [line.split() for line in open("../../notes")]
    try: os.kill(int(first), 0); note("alive")
    except ProcessLookupError: note("dead")
note("begin", attempt, os.getpid())
wait_for(str(attempt))
ok()`);
  const place = await makePlace({
    database,
    plugins: { worker: { program } },
    service: { max_workers: 1, heartbeat_interval: '500ms', reap_after: '2500ms' },
  });
  const frozen = await startProcess(place);
  const ledger = await openLedger(place.config.state, noRules);
  onTestFinished(() => ledger.close());
  const id = makeId();
  const draft = { plugin: 'worker', command: 'poll', payload: '{}', actor: 'test' };
  await ledger.jobs.enqueue({ jobs: [{ ...draft, id, submittedBy: 'cli', maxAttempts: 4 }] });
  await eventually('it runs', async () => (await place.notes()).length === 1);
  const other = await place.start();
  frozen.child.kill('SIGSTOP');
  await place.openGate('2');
  expect(await other.ended(id)).toMatchObject({ status: 'succeeded', attempt: 2 });
  const words = (await place.notes()).map((line) => line.split(' ')[0]);
  expect(words).toEqual(['begin', 'dead', 'begin']);
  frozen.child.kill('SIGCONT');
  for (const message of ['this process was presumed dead', 'a result came after its claim']) {
    await eventually(`it says: ${message}`, () =>
      frozen.records.some((record) => record.message.startsWith(message)),
    );
  }
  const rows = await other.attempts(id);
  expect(rows.map(({ cause }) => cause)).toEqual(['engine_crash', 'ok']);
});
