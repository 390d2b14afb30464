/** The service is killed during a wide block: every element is processed, and none starts twice. */
import { noRules } from '../../src/ledger/rules.ts';
import { expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { outputOf } from '../support/runs.ts';
import { shell, succeeds } from '../support/plugin-program.ts';
import { makeClient } from '../support/crash/client.ts';
import { launch } from '../support/crash/server.ts';

const patienceMs = 60_000;
/** A full batch of an advancer and a part of the next. */
const WIDTH = limits.advanceBatchMax * 1.5;

/** Writes one line with the job's id and its key for each execution. */
const notes = shell(`
request=$(cat)
rest=\${request#*'"job_id":"'}
key=\${request#*'"idempotency_key":"'}
echo "\${rest%%'"'*} \${key%%'"'*}" >> ../../notes
echo '{"status":"ok","result":"noted"}'`);

const pipelines = [
  {
    name: 'wide',
    steps: [
      { id: 'all', foreach: 'payload.items', steps: [{ id: 'note', uses: 'notes.poll' }] },
      { id: 'last', uses: 'last.poll' },
    ],
  },
];

const cases = databases.flatMap((database) =>
  [
    'advance.before-commit:kill:2',
    'advance.after-commit:kill:1',
    'settle.before-commit:kill:40',
    'settle.after-commit:kill:40',
  ].map((probe) => [database, probe] as const),
);

test.each(cases)(
  'a run on %s whose service is killed at %s is finished',
  async (database, probe) => {
    const place = await makePlace({
      database,
      plugins: {
        notes: { program: notes, commands: '{poll: {}}' },
        last: { program: succeeds, commands: '{poll: {}}' },
      },
      pipelines,
      service: {
        heartbeat_interval: '100ms',
        reap_after: database === 'postgres' ? '1500ms' : '400ms',
        max_crashes: 100,
      },
    });
    const items = Array.from({ length: WIDTH }, (_, index) => index);
    const victim = launch(place.directory, probe);
    const { control } = await victim.ready;
    const { status, body } = await makeClient(() => control).post('/pipeline/wide', {
      payload: { items },
    });
    expect(status).toBe(202);
    const runId = body['run_id'] as string;
    expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });

    const server = launch(place.directory);
    const second = await server.ready;
    const client = makeClient(() => second.control);
    const isOver = async (): Promise<boolean> => {
      const { body: ended } = await client.get('/runs?status=succeeded,halted,cancelled');
      return JSON.stringify(ended).includes(runId);
    };
    await eventually('the run has ended', isOver, patienceMs);
    expect(await server.stop()).toEqual({ code: 0, signal: null });
    const ledger = await openLedger(place.config.state, noRules);
    const run = await ledger.runs.find(runId);
    expect(run).toMatchObject({ status: 'succeeded' });
    const { all } = outputOf({ output: run?.output ?? null }) as { all: { item: number }[] };
    expect(all.map(({ item }) => item)).toEqual(items);
    const branches = await ledger.runs.listBranches({ runId, limit: WIDTH * 2 });
    expect(branches).toHaveLength(WIDTH + 1);
    expect(await ledger.check()).toEqual([]);
    await ledger.close();

    const lines = await place.notes();
    const keys = new Set(lines.map((line) => line.split(' ')[1]));
    const jobs = new Set(lines.map((line) => line.split(' ')[0]));
    // A job that was running when the service died runs again, as the same job under the same key.
    expect(keys.size).toBe(WIDTH);
    expect(jobs.size).toBe(WIDTH);
  },
);
