/** The objects that `why` finds under typed names, with real processes. */
import { describe, expect, test } from 'vitest';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { explainWhy } from '../../src/insight/why/why.operations.ts';
import { makePrincipal } from '../../src/access/tokens.service.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { finish, stepsOf } from '../support/runs.ts';

const pipelines = [
  { name: 'deploy', steps: [{ id: 'ship', uses: 'moody.poll' }] },
  { name: 'noter', steps: [{ id: 'note', uses: 'noter.poll' }] },
];

async function begin(database: Database) {
  const settings = { retry: { max_attempts: 1 } };
  const place = await makePlace({
    database,
    plugins: {
      noter: { program: python('ok("fine")'), settings },
      moody: { program: python('fail("not in the mood")'), settings },
      feed: {
        program: python('ok("fine")'),
        settings: { schedules: [{ id: 'nightly', cron: '0 0 1 1 *' }] },
      },
    },
    pipelines,
  });
  const instance = await place.start();
  const context: Context = {
    engine: instance.engine,
    principal: ownerOf('cli:ann'),
    submittedBy: 'cli',
  };
  const why = (id: string, more: object = {}) => invoke(explainWhy, context, { id, ...more });
  return { instance, context, why };
}

describe.each(databases)('on %s', (database) => {
  test('a beginning that a run shares with its own steps names the run', async () => {
    const { instance, why } = await begin(database);
    const halted = await finish(instance, 'deploy');
    const [step] = await stepsOf(instance, halted.id);
    const common = commonPrefix(halted.id, step?.jobId ?? '');
    // The signal of the halt may have the same beginning; with the kind, the name is exact.
    const explanation = await why(`run ${common}`);
    expect(explanation).toMatchObject({ kind: 'run', id: halted.id });
    expect(await why(`job ${step?.jobId}`)).toMatchObject({ kind: 'job', id: step?.jobId });
    expect(await why(`${step?.jobId}-1`)).toMatchObject({ kind: 'job', id: step?.jobId });
    expect(await why(halted.id.slice(0, 18))).toMatchObject({ kind: 'run', id: halted.id });
  });

  test('a beginning that fits several things is refused with all of them and their kinds', async () => {
    const { instance, why } = await begin(database);
    const one = await instance.run('noter');
    const halted = await finish(instance, 'deploy');
    const common = commonPrefix(one.id, halted.id);
    const refused = why(common);
    await expect(refused).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      details: {
        candidates: expect.arrayContaining([
          expect.objectContaining({ kind: 'run', id: halted.id, label: 'deploy' }),
          expect.objectContaining({ kind: 'job', id: one.id, label: 'noter poll' }),
        ]),
      },
    });
    await expect(refused).rejects.toHaveProperty(
      'hint',
      expect.stringContaining(`run ${halted.id}`),
    );
  });

  test('findings, incidents, plugins, commands and pipelines are explained by their names', async () => {
    const { instance, why } = await begin(database);
    const halted = await finish(instance, 'deploy');
    const finding = await why('run_halted:deploy');
    expect(finding).toMatchObject({
      kind: 'finding',
      id: 'run_halted:deploy',
      state: 'error',
      verdict: expect.stringMatching(/run.* of the pipeline deploy halted/i),
      commands: expect.arrayContaining([
        `ductile run revive ${halted.id}`,
        `ductile why ${halted.id}`,
      ]),
    });
    expect(await why('deploy')).toMatchObject({
      kind: 'pipeline',
      blockers: [{ commands: expect.arrayContaining([`ductile run revive ${halted.id}`]) }],
    });
    expect(await why('moody/poll')).toMatchObject({ kind: 'plugin', id: 'moody/poll' });
    expect(await why('moody poll')).toMatchObject({ kind: 'plugin', id: 'moody/poll' });
    expect(await why('moody')).toMatchObject({ kind: 'plugin', id: 'moody' });
    expect(await why('feed/nightly')).toMatchObject({ kind: 'schedule', id: 'feed/nightly' });
    expect(await why('feed/poll')).toMatchObject({
      kind: 'plugin',
      verdict: 'Nothing holds feed/poll back.',
    });
    const incident = await eventually('an incident is open', async () => {
      const [first] = await instance.ledger.incidents.list({ isOpen: true, limit: 1 });
      return first;
    });
    expect(await why(incident.id)).toMatchObject({ kind: 'incident', id: incident.id });
    expect(await why(`incident ${incident.id.slice(0, 18)}`)).toMatchObject({
      kind: 'incident',
      state: 'open',
    });
    await expect(why('nonesuch:deploy')).rejects.toMatchObject({ code: 'SUBJECT_NOT_FOUND' });
  });

  test('a name that a plugin and a pipeline share is refused with both', async () => {
    const { why } = await begin(database);
    await expect(why('noter')).rejects.toMatchObject({
      details: {
        candidates: [
          { kind: 'pipeline', id: 'noter' },
          { kind: 'plugin', id: 'noter' },
        ],
      },
    });
    expect(await why('pipeline noter')).toMatchObject({ kind: 'pipeline', state: 'unused' });
  });

  test('a caller finds only the kinds that the token allows', async () => {
    const { instance, context } = await begin(database);
    const halted = await finish(instance, 'deploy');
    const principal = makePrincipal('token:ci', ['jobs:ro']);
    const ask = (id: string) => invoke(explainWhy, { ...context, principal }, { id });
    await expect(ask(halted.id)).rejects.toMatchObject({ code: 'SUBJECT_NOT_FOUND' });
    await expect(ask(`run ${halted.id}`)).rejects.toMatchObject({ code: 'SUBJECT_NOT_FOUND' });
    await expect(ask('run_halted:deploy')).rejects.toMatchObject({ code: 'SUBJECT_NOT_FOUND' });
  });
});

function commonPrefix(a: string, b: string): string {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return a.slice(0, length);
}
