/** Verbs with many variants: the work of directives, and the ends of steps. */
import { makeId } from '../../../src/base/ids.ts';
import { draftRetry } from '../../../src/job/directives.ts';
import type { DirectiveWork } from '../../../src/ledger/directive-work.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { carryOn, claimSteps, define, done, start } from '../../support/ledger/runs.ts';
import { entry, NOW, PAST } from '../../support/ledger/schedules.ts';
import { only } from '../../support/ledger/bench.ts';
import { draft, fail, pausing, startOne, strict } from '../../support/ledger/drafts.ts';
import { approve, foreach, split, task } from '../../pipeline/graphs.ts';
import type { Scenario, World } from './scenario.ts';

function direct({ ledger, name }: World, work: DirectiveWork) {
  const request = pausing({ type: work.kind, target: name, sameness: 'each' }, work);
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
  return { kind: 'credential.set', credential: about };
}

function webhook(id: string): DirectiveWork {
  return { kind: 'webhook.create', webhook: { id, settings: '{}', sealed } };
}

function token(id: string): DirectiveWork {
  const about = { id, name: id, digest: id, role: 'owner', scopes: [] } as const;
  return { kind: 'token.create', token: { ...about, expiresInMs: undefined } };
}

async function installation(ledger: Ledger, name: string): Promise<DirectiveWork> {
  const content = { version: '1', hash: name, config: '{}', configChecksum: 'c' };
  const provisions = [{ kind: 'plugin', name }] as const;
  const opened = [{ id: name, settings: '{}', sealed: null }];
  return {
    kind: 'package.install',
    installation: {
      id: makeId(),
      slug: name,
      directiveId: makeId(),
      plannedAt: await ledger.installations.readVersion(),
      ...content,
      provisioned: '{}',
      provisions,
      webhooks: { opened, changed: [], closed: [] },
    },
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
    return direct(world, { kind: 'job.cancel', jobId: job.id });
  },
  'direct: job.retry': async (world) => {
    const { ledger, name } = world;
    await ledger.jobs.settle([fail(await startOne(ledger, `of ${name}`, { plugin: name }))]);
    const old = only(await ledger.jobs.list({ plugin: name, limit: 2 }));
    const job = draftRetry(old, { id: makeId(), actor: 'ann', maxAttempts: 2 });
    return direct(world, { kind: 'job.retry', retry: { of: old.id, job } });
  },
  'direct: plugin.switch': (world) =>
    Promise.resolve(direct(world, { kind: 'plugin.switch', plugin: world.name, enabled: false })),
  'direct: schedule.pause': async (world) => {
    await world.ledger.schedules.sync([entry({ plugin: world.name })]);
    const key = { plugin: world.name, scheduleId: 'default' };
    return direct(world, { kind: 'schedule.pause', ...key, paused: true, now: NOW });
  },
  'direct: schedule.resume': async (world) => {
    await world.ledger.schedules.sync([entry({ plugin: world.name })]);
    const about = { kind: 'schedule.pause', plugin: world.name, scheduleId: 'default' } as const;
    const next = { slotAt: PAST, dueAt: PAST };
    const resumed = { ...about, paused: false, now: NOW, next };
    return after(world, { ...about, paused: true, now: NOW }, resumed);
  },
  'direct: breaker.reset': (world) =>
    Promise.resolve(direct(world, { kind: 'breaker.reset', plugin: world.name })),
  'direct: run.cancel': async (world) => {
    const { ledger, name } = world;
    const graph = await define(ledger, [foreach('each', name), task(name)]);
    const run = await start(ledger, graph, { items: [1, 2, 3] });
    return direct(world, { kind: 'run.cancel', runId: run.id });
  },
  'direct: run.revive': async (world) => {
    const of = await haltedRun(world);
    const revival = { of, id: makeId(), firstJobId: makeId(), withContext: true };
    return direct(world, { kind: 'run.revive', revival });
  },
  'direct: run.revive from a step': async (world) => {
    const of = await haltedRun(world);
    const revival = { of, id: makeId(), firstJobId: makeId(), withContext: true, from: 'both' };
    return direct(world, { kind: 'run.revive', revival });
  },
  'direct: run.decide': async (world) => {
    const { ledger, name } = world;
    const graph = await define(ledger, [approve('ok', { next: name }), task(name)]);
    const run = await start(ledger, graph);
    const decision = { runId: run.id, step: 'ok', approved: true };
    return direct(world, { kind: 'run.decide', decision });
  },
  'direct: credential.set': (world) => Promise.resolve(direct(world, credential(world.name))),
  'direct: credential.delete': (world) =>
    after(world, credential(world.name), { kind: 'credential.delete', name: world.name }),
  'direct: webhook.create': (world) => Promise.resolve(direct(world, webhook(world.name))),
  'direct: webhook.change': async (world) => {
    const { ledger, name } = world;
    await direct(world, webhook(name))();
    const seenAt = (await ledger.webhooks.find(name))?.updatedAt ?? PAST;
    const change = { id: name, seenAt, settings: '{"a":1}', sealed };
    return direct(world, { kind: 'webhook.change', change });
  },
  'direct: webhook.delete': (world) =>
    after(world, webhook(world.name), { kind: 'webhook.delete', webhookId: world.name }),
  'direct: token.create': (world) => Promise.resolve(direct(world, token(world.name))),
  'direct: token.rotate': (world) =>
    after(world, token(world.name), {
      kind: 'token.rotate',
      tokenId: world.name,
      digest: `new ${world.name}`,
    }),
  'direct: token.revoke': (world) =>
    after(world, token(world.name), { kind: 'token.revoke', tokenId: world.name }),
  'direct: package.install': async (world) =>
    direct(world, await installation(world.ledger, world.name)),
  'direct: package.change': async (world) => {
    const { ledger, name } = world;
    const first = await installation(ledger, name);
    if (first.kind !== 'package.install') throw new Error('it is no installation');
    await direct(world, first)();
    const { id, slug } = first.installation;
    const about = { id, slug, directiveId: makeId(), to: 'uninstalled' } as const;
    const plannedAt = await ledger.installations.readVersion();
    const webhooks = { opened: [], changed: [], closed: [name] };
    const change = { ...about, plannedAt, webhooks, purge: [name] };
    return direct(world, { kind: 'package.change', change });
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
