/** `ductile prove` beside a running server, whose ledger and effects stay unchanged. */
import { readdirSync } from 'node:fs';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { cliHost } from '../../../src/app/cli-host.ts';
import type { Proof } from '../../../src/operation/extras.ts';
import { makeDirectory } from '../../support/directory.ts';
import { run } from '../../support/fake-cli.ts';
import { eventually, makePlace, type Database, type TestPlace } from '../../support/instance.ts';

const noteAndAnswer = `#!/bin/sh
cat >/dev/null
echo done >> ../../notes
echo '{"status":"ok","result":"noted","events":[{"type":"noted","payload":{"items":[1,2]}}]}'
`;

async function makeInstallation(database: Database = 'sqlite'): Promise<TestPlace> {
  return await makePlace({
    database,
    plugins: { notes: { program: noteAndAnswer } },
    pipelines: [
      {
        name: 'fan',
        steps: [
          { id: 'first', uses: 'notes' },
          { id: 'each', foreach: 'payload.items', steps: [{ id: 'inner', uses: 'notes' }] },
          { id: 'asked', approve: { message: 'go on?' } },
          { id: 'later', wait: { delay: '1h' } },
        ],
      },
    ],
  });
}

const prove = async ({ directory }: TestPlace, ...argv: string[]) =>
  await run(['prove', ...argv, '--config', directory], { host: { ...cliHost } });

describe('with a server that runs', () => {
  test('kills a copy of it, finds nothing lost, and changes nothing of the original', async () => {
    const place = await makeInstallation();
    const { ledger, run: runJob, engine } = await place.start();
    await runJob('notes');
    const life = { pipeline: 'fan', payload: {}, submittedBy: 'api', actor: 'test' } as const;
    const { runId } = await engine.startRun(life);
    const look = async () => ({
      ...(await ledger.jobs.countQueue()),
      notes: await place.notes(),
    });
    // Now it waits for a person.
    await eventually('three more are done', async () =>
      (await ledger.runs.listSteps({ runId, limit: 9 })).some(({ kind }) => kind === 'approve'),
    );
    const before = await look();
    const scratch = await makeDirectory();
    vi.stubEnv('TMPDIR', scratch);
    onTestFinished(() => void vi.unstubAllEnvs());
    const { code, out } = await prove(place, '--minutes', '0.02', '--json');
    const proof = JSON.parse(out) as Proof;
    expect([code, proof.verdict, proof.broken]).toEqual([0, 'kept', []]);
    expect(proof.kills.engine).toBeGreaterThan(0);
    expect(proof.tried).toMatchObject([{ name: 'fan', in_peace: 'succeeded', jobs: 3 }]);
    expect(proof.stubbed).toMatchObject([{ command: 'notes.handle', by: 'recorded' }]);
    expect(proof.changes).toEqual([
      'Retries waited 200ms at most.',
      'These steps waited 200ms, and not for a signal: fan/later.',
      'These steps were approved automatically: fan/asked.',
    ]);
    expect(await look()).toEqual(before);
    expect(readdirSync(scratch)).toEqual([]);
  });
});

test('a ledger on PostgreSQL is rehearsed on a copy in a file, and the output says so', async () => {
  const place = await makeInstallation('postgres');
  await (await place.start()).run('notes');
  const { out } = await prove(place, '--dry-run');
  expect(out).toContain('The test will use a copy of the ledger: 1 jobs, 0 runs.');
  expect(out).toContain('Stubs will replace 2 commands, 1 with recorded responses.');
  expect(out).toContain('Not tested: several hosts on PostgreSQL; the copy is a SQLite file');
});

describe('without one', () => {
  test('says what it would do, and what it does not know', async () => {
    const place = await makeInstallation();
    const plan = await prove(place, '--dry-run');
    expect(plan.out.split('\n')).toEqual([
      'The test will use a copy of the ledger: 0 jobs, 0 runs.',
      'It will test: fan.',
      'Stubs will replace 2 commands, 0 with recorded responses.',
      'Not tested: the effects of plugins; a stub replaced each of them.',
      'Nothing was done.',
      '',
    ]);
    const unknown = await prove(place, '--pipeline', 'fna');
    expect([unknown.code, unknown.err]).toEqual([1, expect.stringContaining('fna')]);
    expect(await place.notes()).toEqual([]);
  });

  test('has nothing to prove where nothing is configured', async () => {
    const place = await makePlace({ plugins: { notes: { program: noteAndAnswer } } });
    const { code, out } = await prove(place, '--minutes', '0.01');
    expect([code, out]).toEqual([1, expect.stringMatching(/^untried: Nothing is proven/)]);
  });
});
