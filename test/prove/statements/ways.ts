/** Verbs with many variants: the work of directives, and the ends of steps. */
import { setCredential, deleteCredential } from '../../../src/access/credential.sql.ts';
import { cancelRun, decideStep } from '../../../src/pipeline/run/change.sql.ts';
import { reviveRun } from '../../../src/pipeline/run/revive.sql.ts';
import { retryOneJob, cancelOneJob } from '../../../src/job/bulk.sql.ts';
import { switchPlugin } from '../../../src/job/plugin-state.sql.ts';
import { createToken, revokeToken, rotateToken } from '../../../src/access/token.sql.ts';
import { createWebhook, changeWebhook, deleteWebhook } from '../../../src/webhook/webhook.sql.ts';
import { insertInstallation, changeInstallation } from '../../../src/package/installation.sql.ts';
import { pauseSchedule } from '../../../src/schedule/schedule.sql.ts';
import { resetBreakers } from '../../../src/schedule/breaker.sql.ts';
import type { InstallationDraft } from '../../../src/package/types.ts';
import { makeId } from '../../../src/base/ids.ts';
import { draftRetry } from '../../../src/job/bulk.ts';
import type { DirectiveWork } from '../../../src/ledger/directive-work.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { carryOn, claimSteps, define, done, start } from '../../support/ledger/runs.ts';
import { entry, NOW, PAST } from '../../support/ledger/schedules.ts';
import { only } from '../../support/ledger/bench.ts';
import { draft, fail, pausing, startOne, strict } from '../../support/ledger/drafts.ts';
import { approve, foreach, split, task } from '../../pipeline/graphs.ts';
import type { Scenario, World } from './scenario.ts';

function direct({ ledger, name }: World, work: DirectiveWork) {
  const request = pausing({ type: 'test.work', target: name, sameness: 'each' }, work);
  return () => ledger.directives.create(request);
}

/** Executes a request in advance, so that the scenario has something to work on. */
async function after(world: World, first: DirectiveWork, then: DirectiveWork) {
  await direct(world, first)();
  return direct(world, then);
}

const sealed = { keyId: 'k1', text: 'v1.a.b' };

function credential(name: string): DirectiveWork {
  const about = { id: makeId(), name, provider: null, sealed, expiresInMs: undefined };
  return (tx, actor) => setCredential(tx, about, actor);
}

function webhook(id: string): DirectiveWork {
  return (tx, actor) => createWebhook(tx, { id, settings: '{}', sealed }, actor);
}

function token(id: string): DirectiveWork {
  const about = { id, name: id, digest: id, role: 'owner', scopes: [] } as const;
  return (tx, actor) => createToken(tx, { ...about, expiresInMs: undefined }, actor);
}

async function installation(ledger: Ledger, name: string): Promise<InstallationDraft> {
  const content = { version: '1', hash: name, config: '{}', configChecksum: 'c' };
  const provisions = [{ kind: 'plugin', name }] as const;
  const opened = [{ id: name, settings: '{}', sealed: null }];
  return {
    id: makeId(),
    slug: name,
    directiveId: makeId(),
    plannedAt: await ledger.installations.readVersion(),
    ...content,
    provisioned: '{}',
    provisions,
    webhooks: { opened, changed: [], closed: [] },
  };
}

async function haltedRun({ ledger, name }: World): Promise<string> {
  const other = `other${name}`;
  const graph = await define(ledger, [split('both', [name, other]), task(name), task(other)]);
  const run = await start(ledger, graph);
  await carryOn(ledger, graph, (job) => (job.stepId === other ? fail(job) : done(job)));
  return run.id;
}

export const ways: Readonly<Record<string, Scenario>> = {
  'direct: job.cancel': async (world) => {
    const job = draft({ plugin: world.name, dedupe: strict(world.name) });
    await world.ledger.jobs.enqueue({ jobs: [job] });
    return direct(world, (tx) => cancelOneJob(tx, job.id));
  },
  'direct: job.retry': async (world) => {
    const { ledger, name } = world;
    await ledger.jobs.settle([fail(await startOne(ledger, `of ${name}`, { plugin: name }))]);
    const old = only(await ledger.jobs.list({ plugin: name, limit: 2 }));
    const job = draftRetry(old, { id: makeId(), actor: 'ann', maxAttempts: 2 });
    return direct(world, (tx) => retryOneJob(tx, { of: old.id, job }));
  },
  'direct: plugin.switch': (world) =>
    Promise.resolve(
      direct(world, (tx, actor) => switchPlugin(tx, { plugin: world.name, enabled: false }, actor)),
    ),
  'direct: schedule.pause': async (world) => {
    await world.ledger.schedules.sync([entry({ plugin: world.name })]);
    const key = { plugin: world.name, scheduleId: 'default' };
    return direct(world, (tx) => pauseSchedule(tx, { ...key, paused: true, now: NOW }));
  },
  'direct: schedule.resume': async (world) => {
    await world.ledger.schedules.sync([entry({ plugin: world.name })]);
    const about = { plugin: world.name, scheduleId: 'default', now: NOW };
    const next = { slotAt: PAST, dueAt: PAST };
    return after(
      world,
      (tx) => pauseSchedule(tx, { ...about, paused: true }),
      (tx) => pauseSchedule(tx, { ...about, paused: false, next }),
    );
  },
  'direct: breaker.reset': (world) =>
    Promise.resolve(direct(world, (tx) => resetBreakers(tx, { plugin: world.name }))),
  'direct: run.cancel': async (world) => {
    const { ledger, name } = world;
    const graph = await define(ledger, [foreach('each', name), task(name)]);
    const run = await start(ledger, graph, { items: [1, 2, 3] });
    return direct(world, (tx) => cancelRun(tx, run.id));
  },
  'direct: run.revive': async (world) => {
    const of = await haltedRun(world);
    const revival = { of, id: makeId(), firstJobId: makeId(), withContext: true };
    return direct(world, (tx, actor) => reviveRun(tx, revival, actor));
  },
  'direct: run.revive from a step': async (world) => {
    const of = await haltedRun(world);
    const revival = { of, id: makeId(), firstJobId: makeId(), withContext: true, from: 'both' };
    return direct(world, (tx, actor) => reviveRun(tx, revival, actor));
  },
  'direct: run.decide': async (world) => {
    const { ledger, name } = world;
    const graph = await define(ledger, [approve('ok', { next: name }), task(name)]);
    const run = await start(ledger, graph);
    const decision = { runId: run.id, step: 'ok', approved: true };
    return direct(world, (tx, actor) => decideStep(tx, decision, actor));
  },
  'direct: credential.set': (world) => Promise.resolve(direct(world, credential(world.name))),
  'direct: credential.delete': (world) =>
    after(world, credential(world.name), (tx) => deleteCredential(tx, world.name)),
  'direct: webhook.create': (world) => Promise.resolve(direct(world, webhook(world.name))),
  'direct: webhook.change': async (world) => {
    const { ledger, name } = world;
    await direct(world, webhook(name))();
    const seenAt = (await ledger.webhooks.find(name))?.updatedAt ?? PAST;
    const change = { id: name, seenAt, settings: '{"a":1}', sealed };
    return direct(world, (tx, actor) => changeWebhook(tx, change, actor));
  },
  'direct: webhook.delete': (world) =>
    after(world, webhook(world.name), (tx) => deleteWebhook(tx, world.name)),
  'direct: token.create': (world) => Promise.resolve(direct(world, token(world.name))),
  'direct: token.rotate': (world) =>
    after(world, token(world.name), (tx) => rotateToken(tx, world.name, `new ${world.name}`)),
  'direct: token.revoke': (world) =>
    after(world, token(world.name), (tx) => revokeToken(tx, world.name)),
  'direct: package.install': async (world) => {
    const installed = await installation(world.ledger, world.name);
    return direct(world, (tx, actor) => insertInstallation(tx, installed, actor));
  },
  'direct: package.change': async (world) => {
    const { ledger, name } = world;
    const first = await installation(ledger, name);
    await direct(world, (tx, actor) => insertInstallation(tx, first, actor))();
    const { id, slug } = first;
    const about = { id, slug, directiveId: makeId(), to: 'uninstalled' } as const;
    const plannedAt = await ledger.installations.readVersion();
    const webhooks = { opened: [], changed: [], closed: [name] };
    const change = { ...about, plannedAt, webhooks, purge: [name] };
    return direct(world, (tx) => changeInstallation(tx, change));
  },
  'settle a step that moves its run': async ({ ledger, name }) => {
    const graph = await define(ledger, [task(name, { next: `z${name}` }), task(`z${name}`)]);
    await start(ledger, graph);
    const closings = (await claimSteps(ledger, graph)).map((job) => done(job));
    return () => ledger.jobs.settle(closings);
  },
  'settle a step that halts its run': async ({ ledger, name }) => {
    const graph = await define(ledger, [task(name)]);
    await start(ledger, graph);
    const closings = (await claimSteps(ledger, graph)).map((job) => fail(job));
    return () => ledger.jobs.settle(closings);
  },
  'settle the last branch of a block': async ({ ledger, name }) => {
    const graph = await define(ledger, [
      foreach('each', name, { next: `z${name}` }),
      task(name),
      task(`z${name}`),
    ]);
    await start(ledger, graph, { items: [1, 2, 3] });
    const closings = (await claimSteps(ledger, graph)).map((job) => done(job));
    return () => ledger.jobs.settle(closings);
  },
};
