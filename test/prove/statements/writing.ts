/** Every verb that writes, with enough data that all of its statements have an effect. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeId, makeToken } from '../../../src/base/ids.ts';
import { draftRetry } from '../../../src/job/bulk.ts';
import type { ClaimedJob } from '../../../src/job/types.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { define, runOf, start } from '../../support/ledger/runs.ts';
import { entry, firing, NOW, PAST } from '../../support/ledger/schedules.ts';
import { only, range } from '../../support/ledger/bench.ts';
import {
  beat,
  claimable,
  crash,
  draft,
  fail,
  keyed,
  pausing,
  request,
  signalOf,
  startOne,
  strict,
  succeed,
  waiting,
} from '../../support/ledger/drafts.ts';
import { makeDirectory } from '../../support/directory.ts';
import { foreach, task } from '../../pipeline/graphs.ts';
import { emission, signal, type Scenario, type Verb, type World } from './scenario.ts';

const FLOOD = 150;
const nothing = { signals: 0, jobs: 0, runs: 0, skipped: 0, unhandled: 0, unopened: 0 };
const unlimited = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };

function begun({ ledger, name }: World, given: Parameters<typeof startOne>[2] = {}) {
  return startOne(ledger, `of ${name}`, { plugin: name, ...given });
}

/** A success with all possible results of an attempt. */
function succeedFully(job: ClaimedJob, name: string) {
  return succeed(job, {
    state: { kind: 'snapshot', factType: 'seen', mirror: true, value: '{"seen":1}' },
    signals: [signalOf(job)],
    jobs: [draft({ plugin: name, dedupe: strict(name) }), draft({ plugin: name })],
  });
}

/** A run whose first step fans out so widely that an advancer has to do it, claimed by one. */
async function claimWide({ ledger, name }: World) {
  const graph = await define(ledger, [foreach('each', name), task(name)]);
  const run = await start(ledger, graph, { items: range(FLOOD) });
  const processId = `of ${name}`;
  await ledger.processes.heartbeat(beat(processId));
  const token = makeToken();
  return { run, claim: { processId, token, limit: 5 } };
}

async function takeWide(world: World) {
  const { run, claim } = await claimWide(world);
  const { branchIds } = await world.ledger.runs.claimBranches(claim);
  return { run, branchId: only(branchIds), token: claim.token };
}

function delivery(webhookId: string) {
  const id = makeId();
  const about = { id, webhookId, deliveryId: id, source: '127.0.0.1', headers: '[]', bodyBytes: 2 };
  return { about, whole: { ...about, replayKey: id, emission: emission(`webhook:${webhookId}`) } };
}

async function addTenant({ ledger, name }: World): Promise<string> {
  await ledger.tenants.insert({ slug: name, title: name, limits: unlimited, createdBy: 'api' });
  return name;
}

async function process({ ledger, name }: World, type: string) {
  const insert = pausing({ type, target: name, sameness: 'each' }, 'process');
  return { asked: insert, directive: (await ledger.directives.create(insert)).directive };
}

async function wait({ ledger, name }: World, forApproval: boolean) {
  const due = forApproval ? {} : { due: { inMs: 0 } };
  const insert = waiting({ forApproval, ...due }, { target: name });
  return { asked: insert, directive: (await ledger.directives.create(insert)).directive };
}

function snapshot(name: string) {
  const about = { id: name, hash: name, config: '{}', plugins: '{}' };
  return { ...about, reason: 'start', generation: 1, processId: 'p1' } as const;
}

async function sealOne(ledger: Ledger) {
  const sealed = { ...signal(), sealed: { keyId: 'k1', text: 'v1.a.b' } };
  await ledger.signals.emit([{ signal: sealed, jobs: [], runs: [] }]);
  return { kind: 'payload', id: sealed.id, sealed: sealed.sealed } as const;
}

export const writing = {
  'jobs.enqueue': async ({ ledger, name }) => {
    const jobs = [draft({ plugin: name, dedupe: strict(name) }), draft({ plugin: name })];
    const contexts = [{ id: name, accumulated: '{}' }];
    const graph = await define(ledger, [task(name)]);
    const runs = [runOf(graph)];
    const signals = [signal()];
    return () => ledger.jobs.enqueue({ jobs, contexts, signals, runs });
  },
  'runs.start': async ({ ledger, name }) => {
    const graph = await define(ledger, [foreach('each', name), task(name)]);
    const runs = [runOf(graph, { items: [1, 2, 3] }), runOf(graph, { items: [] })];
    const cause = signal();
    return () => ledger.runs.start({ jobs: [draft({ plugin: name })], runs, signals: [cause] });
  },
  'jobs.claim': async ({ ledger, name }) => {
    await ledger.jobs.enqueue({ jobs: range(5).map(() => draft({ plugin: name })) });
    await ledger.processes.heartbeat(beat(`of ${name}`));
    const claim = request(`of ${name}`, { slots: 3, plugins: [claimable(name)] });
    return () => ledger.jobs.claim(claim);
  },
  'jobs.settle': async (world) => {
    const { ledger, name } = world;
    const job = await begun(world, { dedupe: strict(`own ${name}`) });
    await ledger.jobs.enqueue({ jobs: [draft({ plugin: name })] });
    const closing = succeedFully(job, name);
    const claim = request(`of ${name}`, { slots: 1, plugins: [claimable(name)] });
    return () => ledger.jobs.settle([closing], claim);
  },
  'processes.reap': async (world) => {
    const closings = [crash(await begun(world))];
    const input = { processId: `of ${world.name}`, staleMs: 0, closings };
    return () => world.ledger.processes.reap(input);
  },
  'jobs.cancel': async ({ ledger, name }) => {
    const job = draft({ plugin: name, dedupe: strict(name) });
    await ledger.jobs.enqueue({ jobs: [job] });
    return () => ledger.jobs.cancel(job.id);
  },
  'jobs.cancelMany': async (world) => {
    const waits = draft({ plugin: world.name });
    const runs = await begun(world);
    await world.ledger.jobs.enqueue({ jobs: [waits] });
    return () => world.ledger.jobs.cancelMany([waits.id, runs.id]);
  },
  'jobs.promote': async ({ ledger, name, sql }) => {
    const job = draft({ plugin: name });
    await ledger.jobs.enqueue({ jobs: [job] });
    await sql(`update job_queue set next_retry_at = '${PAST}' where id = ?`, [job.id]);
    return () => ledger.jobs.promote();
  },
  'history.prune': async (world) => {
    const { ledger } = world;
    const input = { what: 'jobs', olderThanMs: 0, limit: 1000 } as const;
    await ledger.jobs.settle([succeed(await begun(world))]);
    while ((await ledger.history.prune(input)) > 0) await Promise.resolve();
    await ledger.jobs.settle([succeed(await begun(world))]);
    return () => ledger.history.prune(input);
  },
  'processes.heartbeat': async (world) => {
    await begun(world);
    return () => world.ledger.processes.heartbeat(beat(`of ${world.name}`, { slots: 3 }));
  },
  'processes.leave': async ({ ledger, name }) => {
    await ledger.processes.heartbeat(beat(name));
    return () => ledger.processes.leave(name);
  },
  awaitEnd: async ({ ledger, name }) => {
    const job = draft({ plugin: name });
    await ledger.jobs.enqueue({ jobs: [job] });
    return () => ledger.awaitEnd('job', job.id);
  },
  backup: async ({ ledger, name }) => {
    const path = join(await makeDirectory(), `${name}.db`);
    return async () => {
      try {
        await ledger.backup(path);
      } catch (error) {
        if (!existsSync(path)) throw error;
        throw new Error(`half a backup is left in ${dirname(path)}`, { cause: error });
      }
    };
  },
  'meta.write': ({ ledger, name }) =>
    Promise.resolve(() => ledger.meta.write('restored_from', name)),
  'runs.saveDefinitions': async ({ ledger, name }) => {
    const graph = await define(ledger, [task(name)]);
    return () => ledger.runs.saveDefinitions([{ ...graph, hash: `other ${name}` }]);
  },
  'runs.claimBranches': async (world) => {
    const { claim } = await claimWide(world);
    return () => world.ledger.runs.claimBranches(claim);
  },
  'runs.advance': async (world) => {
    const { branchId, token } = await takeWide(world);
    return () => world.ledger.runs.advance({ branchId, token });
  },
  'runs.releaseBranch': async (world) => {
    const { branchId, token } = await takeWide(world);
    return () => world.ledger.runs.releaseBranch({ branchId, token, error: 'no', triesMax: 1 });
  },
  'runs.readBasePayload': async (world) => {
    const { run } = await claimWide(world);
    return () => world.ledger.runs.readBasePayload(`${run.id}:0`);
  },
  'runs.findStepSignal': async (world) => {
    const { run } = await claimWide(world);
    return () =>
      world.ledger.runs.findStepSignal({
        runId: run.id,
        branchId: run.id,
        parentJobId: 'job',
        idempotencyKey: 'key',
      });
  },
  'signals.emit': ({ ledger }) => {
    const emissions = [emission(), emission()];
    return Promise.resolve(() => ledger.signals.emit(emissions));
  },
  'signals.replay': async (world) => {
    const { ledger, name } = world;
    const { directive } = await process(world, 'signal.replay');
    const event = emission(name);
    await ledger.signals.emit([{ ...event, jobs: [] }]);
    const seq = only(await ledger.signals.list({ id: event.signal.id, limit: 1 })).seq;
    const { id: directiveId, processId } = directive;
    const step = { directiveId, processId, force: false, cursor: seq, ...nothing, signals: 1 };
    const before = { cursor: 0, upTo: seq, ...nothing };
    return () => ledger.signals.replay({ ...step, before, jobs: event.jobs, runs: [] });
  },
  'directives.create': ({ ledger, name }) => {
    const insert = pausing({ target: name, sameness: 'each' });
    return Promise.resolve(() => ledger.directives.create(insert));
  },
  'directives.start': async (world) => {
    const { asked, directive } = await wait(world, false);
    return () => world.ledger.directives.start({ ...asked, directive });
  },
  'directives.approve': async (world) => {
    const { directive } = await wait(world, true);
    const decision = { id: directive.id, actor: 'api:ann', signals: [signal()], jobs: [] };
    return () => world.ledger.directives.approve(decision);
  },
  'directives.cancel': async (world) => {
    const { directive } = await wait(world, true);
    const decision = { id: directive.id, actor: 'api:ann', signals: [signal()], jobs: [] };
    return () => world.ledger.directives.cancel(decision);
  },
  'directives.release': async (world) => {
    const { directive } = await process(world, 'signal.replay');
    return () => world.ledger.directives.release(directive);
  },
  'directives.close': async (world) => {
    const { directive } = await process(world, 'signal.replay');
    const { id, processId } = directive;
    const end = { status: 'completed', result: {} } as const;
    const closing = { id, processId, end, signals: [signal()], jobs: [draft()] };
    return () => world.ledger.directives.close(closing);
  },
  'jobs.retryMany': async (world) => {
    const { ledger } = world;
    const job = await begun(world);
    await ledger.jobs.settle([fail(job)]);
    const old = only(await ledger.jobs.list({ plugin: world.name, limit: 2 }));
    const again = draftRetry(old, { id: makeId(), actor: 'ann', maxAttempts: 2 });
    return () => ledger.jobs.retryMany([{ of: old.id, job: again }]);
  },
  'tokens.claimNames': ({ ledger, name }) =>
    Promise.resolve(() => ledger.tokens.claimNames([name])),
  'tokens.recordUse': ({ ledger }) => Promise.resolve(() => ledger.tokens.recordUse(['none'])),
  'idempotencyKeys.open': ({ ledger, name }) => {
    const key = keyed(name);
    return Promise.resolve(() => ledger.idempotencyKeys.open(key));
  },
  'idempotencyKeys.close': async ({ ledger, name }) => {
    const key = keyed(name);
    await ledger.idempotencyKeys.open(key);
    return () => ledger.idempotencyKeys.close(key, { status: 200, answer: '{}' });
  },
  'credentials.recordUse': ({ ledger }) =>
    Promise.resolve(() => ledger.credentials.recordUse(['none'])),
  'seals.replace': async ({ ledger }) => {
    const thing = await sealOne(ledger);
    return () => ledger.seals.replace([{ ...thing, after: { keyId: 'k2', text: 'v1.x.y' } }]);
  },
  'schedules.sync': ({ ledger, name }) =>
    Promise.resolve(() => ledger.schedules.sync([entry({ plugin: name })])),
  'schedules.retire': async ({ ledger, name }) => {
    await ledger.schedules.sync([entry({ plugin: name })]);
    return () => ledger.schedules.retire([{ plugin: name, scheduleId: 'default' }]);
  },
  'schedules.fire': async ({ ledger, name }) => {
    await ledger.schedules.sync([entry({ plugin: name })]);
    const { due } = await ledger.schedules.listDue({ now: NOW, limit: 1000 });
    const firings = [firing(only(due.filter(({ plugin }) => plugin === name)))];
    return () => ledger.schedules.fire({ now: NOW, firings });
  },
  'snapshots.insert': ({ ledger, name }) =>
    Promise.resolve(() => ledger.snapshots.insert(snapshot(name))),
  'snapshots.mask': async ({ ledger, name }) => {
    await ledger.snapshots.insert(snapshot(name));
    return () => ledger.snapshots.mask([{ id: name, config: '{}' }]);
  },
  'snapshots.touch': async ({ ledger, name }) => {
    await ledger.snapshots.insert(snapshot(name));
    return () => ledger.snapshots.touch(name);
  },
  'plugins.requireInits': ({ ledger, name }) => {
    const job = draft({ plugin: name, command: 'init', maxAttempts: 1, initFor: 'print' });
    const jobOptions = { plugin: name, fingerprint: 'print', why: 'adopted', job } as const;
    return Promise.resolve(() => ledger.plugins.requireInits([jobOptions]));
  },
  'plugins.reviewHealth': async ({ ledger, name }) => {
    const job = draft({ plugin: name, command: 'init', maxAttempts: 1, initFor: 'print' });
    await ledger.plugins.requireInits([
      { plugin: name, fingerprint: 'print', why: 'adopted', job },
    ]);
    await ledger.jobs.cancel(job.id);
    return () => ledger.plugins.reviewHealth();
  },
  'plugins.recordHealth': ({ ledger, name }) => {
    const note = { plugin: name, status: 'healthy', reason: null, jobId: name } as const;
    return Promise.resolve(() => ledger.plugins.recordHealth(note));
  },
  'observations.record': ({ ledger, name }) => {
    const observed = { kind: 'call_refused', key: name, count: 1, detail: '{}' } as const;
    return Promise.resolve(() => ledger.observations.record([observed]));
  },
  'incidents.update': async ({ ledger, name }) => {
    const about = { kind: 'breaker_open', count: 1, detail: '{}' } as const;
    const old = { ...about, id: makeId(), key: `old ${name}`, emission: emission() };
    await ledger.incidents.update({ opened: [old], renewed: [], closed: [] });
    const moves = {
      opened: [{ ...about, id: makeId(), key: name, emission: emission() }],
      renewed: [{ id: old.id, count: 1, detail: '{}' }],
      closed: [{ id: old.id, emission: emission() }],
    };
    return () => ledger.incidents.update(moves);
  },
  'incidents.claimWatch': ({ ledger }) => Promise.resolve(() => ledger.incidents.claimWatch(0)),
  'installations.recordError': ({ ledger, name }) =>
    Promise.resolve(() => ledger.installations.recordError(name, 'cannot')),
  'history.recordPruned': ({ ledger }) => Promise.resolve(() => ledger.history.recordPruned()),
  'tenants.insert': (world) => Promise.resolve(() => addTenant(world)),
  'tenants.updateStatus': async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.tenants.updateStatus(slug, ['creating', 'active'], 'active');
  },
  'tenants.updateLimits': async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.tenants.updateLimits(slug, { ...unlimited, workers: 3 });
  },
  'tenants.delete': async (world) => {
    const slug = await addTenant(world);
    await world.ledger.tenants.insertKey('token', `key ${slug}`, slug);
    return () => world.ledger.tenants.delete(slug);
  },
  'tenants.recordDue': async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.tenants.recordDue(slug, 'now');
  },
  'tenants.recordAllDue': async (world) => {
    await addTenant(world);
    return () => world.ledger.tenants.recordAllDue();
  },
  'tenants.awaitClaims': async (world) => {
    const slug = await addTenant(world);
    await world.ledger.tenants.recordDue(slug, 'now');
    return () => world.ledger.tenants.awaitClaims();
  },
  'tenants.recordSchema': async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.tenants.recordSchema(slug, { version: 1, error: null });
  },
  'tenants.insertKey': async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.tenants.insertKey('token', `key ${slug}`, slug);
  },
  'tenants.deleteKey': async (world) => {
    const slug = await addTenant(world);
    await world.ledger.tenants.insertKey('token', `key ${slug}`, slug);
    return () => world.ledger.tenants.deleteKey('token', `key ${slug}`);
  },
  'webhooks.accept': ({ ledger, name }) => {
    const deliveries = [delivery(name).whole, delivery(name).whole];
    return Promise.resolve(() => ledger.webhooks.accept(deliveries));
  },
  'deliveries.recordRejected': ({ ledger, name }) => {
    const untaken = { ...delivery(name).about, verdict: 'refused', reason: 'no' } as const;
    return Promise.resolve(() => ledger.deliveries.recordRejected(untaken));
  },
} satisfies Partial<Record<Verb, Scenario>>;
