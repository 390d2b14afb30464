/** Problems on the ledger in doctor, status and incidents, and when they are over. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import type { Operation } from '../../src/operation/define.ts';
import { systemDoctor } from '../../src/insight/doctor.operations.ts';
import { findingsShape } from '../../src/insight/findings.service.ts';
import { acknowledgeIncidentDirective } from '../../src/insight/incident.directives.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { retryJobsDirective } from '../../src/job/job.directives.ts';
import { decideStepDirective } from '../../src/pipeline/run/decide.directives.ts';
import { reviveRunDirective } from '../../src/pipeline/run/run.directives.ts';
import { cancelDirectiveOperation } from '../../src/directive/operations.ts';
import { systemStatus } from '../../src/engine/system.operations.ts';
import { ask } from '../support/direct.ts';
import {
  databases,
  eventually,
  makePlace,
  type Setup,
  type TestInstance,
} from '../support/instance.ts';
import { alwaysFails, python, succeeds } from '../support/plugin-program.ts';
import { finish, startRun } from '../support/runs.ts';

/** Fails until its gate is open. */
const moody = python(
  'ok("fine") if os.path.exists("../../gate-good") else fail("not in the mood")',
);
const once = { retry: { max_attempts: 1 } };

function talkTo({ engine }: TestInstance) {
  const context: Context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' };
  const call = (operation: Operation, input: object = {}) => invoke(operation, context, input);
  const doctor = async () => findingsShape.parse(await call(systemDoctor)).findings;
  return {
    call,
    /** Findings on the ledger, without what the test's own files lack. */
    findings: async () => (await doctor()).filter(({ kind, category }) => kind !== category),
    openKinds: async (kind: string) => {
      engine.lookForIncidents();
      const list = await engine.ledger.incidents.list({ isOpen: true, limit: 99 });
      return list.filter((one) => one.kind === kind);
    },
  };
}

async function open(setup: Setup) {
  const place = await makePlace(setup);
  const instance = await place.start();
  return { place, instance, ...talkTo(instance) };
}

describe.each(databases)('findings of a ledger on %s', (database) => {
  test('name halted runs, dead jobs and waiting approvals until each is resolved', async () => {
    const { place, instance, call, findings, openKinds } = await open({
      database,
      plugins: {
        worker: { program: succeeds },
        moody: { program: moody, settings: once },
      },
      pipelines: [
        { name: 'moods', steps: [{ id: 'mood', uses: 'moody.poll' }] },
        {
          name: 'asks',
          steps: [
            { id: 'ok', approve: 'Send {payload.n}?' },
            { id: 'then', uses: 'worker.poll' },
          ],
        },
      ],
      directives: { approval: ['plugin.disable'] },
    });
    await instance.run('worker');
    expect(await findings()).toEqual([]);
    expect(await call(systemStatus)).toMatchObject({
      findings: { errors: 0, warnings: 0, infos: 0, first: [] },
    });

    const dead = await instance.run('moody');
    expect(dead.status).toBe('dead');
    const halted = await finish(instance, 'moods');
    const asking = await startRun(instance, 'asks', { n: 7 });
    const { id: directiveId } = await ask(instance.engine, 'plugin.disable', { plugin: 'worker' });
    const found = await findings();
    expect(found.map(({ severity, id }) => `${severity} ${id}`)).toEqual([
      'error job_dead:moody/poll',
      'error run_halted:moods',
      'warning approval_waiting:asks',
      'warning approval_waiting:directive/plugin.disable',
    ]);
    expect(found.map(({ commands: [first], why }) => [first, why])).toEqual([
      [`ductile job retry ${dead.id}`, dead.id],
      [`ductile run revive ${halted.id}`, halted.id],
      [`ductile run approve ${asking} ok`, asking],
      [`ductile directive approve ${directiveId}`, directiveId],
    ]);
    expect(found[0]?.evidence).toContain('not in the mood');
    expect(found[2]?.evidence).toContain('Send 7?');
    expect(await call(systemStatus)).toMatchObject({
      findings: { errors: 2, warnings: 2, first: [{ id: 'job_dead:moody/poll' }, {}, {}, {}] },
    });
    const kinds = ['job_dead', 'run_halted', 'approval_waiting'];
    for (const kind of kinds) {
      const [incident] = await eventually(`${kind} is open`, async () => {
        const list = await openKinds(kind);
        return list.length > 0 && list;
      });
      expect(JSON.parse(incident?.detail ?? '')).toMatchObject({
        commands: expect.arrayContaining([expect.stringContaining('ductile')]) as unknown,
      });
    }
    const type = 'run.awaiting_approval';
    expect(await instance.ledger.signals.list({ type, limit: 9 })).toHaveLength(1);

    await place.openGate('good');
    await call(retryJobsDirective.operation, { id: dead.id });
    await call(reviveRunDirective.operation, { id: halted.id });
    await call(decideStepDirective.operation, { id: asking, step: 'ok' });
    await call(cancelDirectiveOperation, { id: directiveId });
    await eventually('nothing is found', async () => (await findings()).length === 0);
    for (const kind of kinds) {
      await eventually(`${kind} is closed`, async () => (await openKinds(kind)).length === 0);
    }
  });

  test('leave out what an operator acknowledged, and find new ones', async () => {
    const { instance, call, findings, openKinds } = await open({
      database,
      plugins: { worker: { program: alwaysFails, settings: once } },
      pipelines: [{ name: 'flow', steps: [{ id: 'a', uses: 'worker.poll' }] }],
    });
    await instance.run('worker');
    await finish(instance, 'flow');
    const [incident] = await eventually('the incident is open', async () => {
      const list = await openKinds('job_dead');
      return list.length > 0 && list;
    });
    const input = { id: incident?.id, reason: 'done by hand' };
    expect(await call(acknowledgeIncidentDirective.operation, input)).toMatchObject({
      finding: 'job_dead:worker/poll',
    });
    await call(acknowledgeIncidentDirective.operation, { id: 'run_halted:flow' });
    expect(await findings()).toEqual([]);
    await eventually('they are closed', async () => {
      const left = [...(await openKinds('job_dead')), ...(await openKinds('run_halted'))];
      return left.length === 0;
    });
    const [record] = await instance.ledger.directives.list({
      type: 'incident.acknowledge',
      limit: 9,
    });
    expect(record).toMatchObject({ actor: 'cli:ann', target: 'incident:run_halted:flow' });

    const again = await instance.run('worker');
    const found = await findings();
    expect(found).toMatchObject([{ id: 'job_dead:worker/poll', count: 1, why: again.id }]);
    await expect(
      call(acknowledgeIncidentDirective.operation, { id: 'breaker_open:worker/poll' }),
    ).rejects.toThrow("can't be acknowledged");
    await expect(
      call(acknowledgeIncidentDirective.operation, { id: '00000000' }),
    ).rejects.toMatchObject({
      code: 'INCIDENT_NOT_FOUND',
    });
  });

  test('name secrets whose key is missing, and credentials that are', async () => {
    const { place, instance, findings, openKinds } = await open({
      database,
      plugins: {
        worker: { program: succeeds, settings: { config: { key: 'credential:api' } } },
      },
    });
    expect(await findings()).toMatchObject([
      {
        id: 'credential_missing:api',
        severity: 'error',
        commands: ['ductile credential set api'],
        message: expect.stringContaining('plugin worker') as string,
      },
    ]);
    await ask(instance.engine, 'credential.set', { name: 'api' }, { secret: 'value-one' });
    expect(await findings()).toEqual([]);
    const file = join(place.config.state.dir, 'credential.key');
    const key = await readFile(file, 'utf8');
    await rm(file);
    const [found] = await findings();
    expect(found).toMatchObject({ kind: 'credential_key_missing', severity: 'error' });
    expect(found?.evidence).toBe('sealed with it: credential api');
    expect(found?.commands).toContain('ductile credential set api');
    await eventually('the incident is open', async () => {
      return (await openKinds('credential_key_missing')).length === 1;
    });
    await writeFile(file, key, { mode: 0o600 });
    expect(await findings()).toEqual([]);
    await eventually('the incident is closed', async () => {
      return (await openKinds('credential_key_missing')).length === 0;
    });
  });

  test('name what an operator paused, by whom and when', async () => {
    const { instance, findings } = await open({
      database,
      plugins: {
        worker: {
          program: succeeds,
          settings: { schedules: [{ id: 'nightly', command: 'poll', every: '1d' }] },
        },
      },
    });
    const { engine, ledger } = instance;
    await eventually('the schedule is known', async () => {
      return (await ledger.schedules.list({ limit: 9 })).length === 1;
    });
    await ask(engine, 'system.pause', {});
    await ask(engine, 'plugin.disable', { plugin: 'worker' });
    await ask(engine, 'schedule.pause', { plugin: 'worker', schedule_id: 'nightly' });
    const found = await findings();
    expect(found.map(({ severity, id, commands: [first] }) => [severity, id, first])).toEqual([
      ['warning', 'paused:system', 'ductile system resume'],
      ['info', 'paused:plugin/worker', 'ductile plugin enable worker'],
      ['info', 'paused:schedule/worker/nightly', 'ductile schedule resume worker nightly'],
    ]);
    for (const { evidence } of found) expect(evidence).toMatch(/^cli:ann at 20\d\d-.*ago$/);
  });

  test('name an open breaker with its last error, and a setup that failed', async () => {
    const { place, instance, findings } = await open({
      database,
      plugins: {
        setup: { program: alwaysFails, commands: '{init: {}, poll: {}}', settings: once },
        worker: { program: succeeds },
      },
    });
    await eventually('the setup failed', async () => {
      const rows = await instance.ledger.plugins.listHealth();
      return rows.some(({ status }) => status === 'unhealthy');
    });
    const [init] = await findings();
    expect(init).toMatchObject({
      id: 'plugin_not_set_up:setup',
      severity: 'error',
      commands: ['ductile plugin init setup'],
    });
    const job = await instance.run('worker');
    await place.sql(`update job_queue set last_error = 'no route to host' where id = ?`, job.id);
    await place.sql(
      `insert into circuit_breakers (plugin, command, state, failure_count, opened_at,
        last_failure_at, last_job_id, threshold, reset_after_ms, updated_at)
       values ('worker', 'poll', 'open', 3, '2999-01-01T00:00:00.000Z',
        '2999-01-01T00:00:00.000Z', ?, 3, 60000, '2999-01-01T00:00:00.000Z')`,
      job.id,
    );
    const breaker = (await findings()).find(({ kind }) => kind === 'breaker_open');
    expect(breaker).toMatchObject({
      key: 'worker/poll',
      why: job.id,
      commands: ['ductile breaker reset worker --command poll'],
      evidence: `3 failures in a row; last error: no route to host (job ${job.id})`,
    });
    expect(breaker?.fix).toContain('2999-01-01T00:01:00.000Z');
  });
});
