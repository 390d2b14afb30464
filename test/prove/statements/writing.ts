/** Every verb that writes, with enough before it that all of its statements have something to do. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeId, makeToken } from '../../../src/base/ids.ts';
import { draftRetry } from '../../../src/job/directives.ts';
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
import { emission, signal, type Scene, type Verb, type World } from './scene.ts';

const FLOOD = 150;
const nothing = { signals: 0, jobs: 0, runs: 0, skipped: 0, unhandled: 0, unopened: 0 };
const unlimited = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };

function begun({ ledger, name }: World, given: Parameters<typeof startOne>[2] = {}) {
  return startOne(ledger, `of ${name}`, { plugin: name, ...given });
}

/** A success with all that an attempt can bring. */
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
  await ledger.heartbeat(beat(processId));
  const token = makeToken();
  return { run, claim: { processId, token, limit: 5 } };
}

async function takeWide(world: World) {
  const { run, claim } = await claimWide(world);
  const { branchIds } = await world.ledger.claimBranches(claim);
  return { run, branchId: only(branchIds), token: claim.token };
}

function delivery(hookId: string) {
  const id = makeId();
  const about = { id, hookId, deliveryId: id, source: '127.0.0.1', headers: '[]', bodyBytes: 2 };
  return { about, whole: { ...about, replayKey: id, emission: emission(`webhook:${hookId}`) } };
}

async function addTenant({ ledger, name }: World): Promise<string> {
  await ledger.addTenant({ slug: name, title: name, limits: unlimited, createdBy: 'api' });
  return name;
}

async function process({ ledger, name }: World, type: string) {
  const asked = pausing({ type, target: name, sameness: 'each' }, { kind: 'process' });
  return { asked, directive: (await ledger.direct(asked)).directive };
}

async function wait({ ledger, name }: World, forApproval: boolean) {
  const due = forApproval ? {} : { due: { inMs: 0 } };
  const asked = waiting({ forApproval, ...due }, { target: name });
  return { asked, directive: (await ledger.direct(asked)).directive };
}

function snapshot(name: string) {
  const about = { id: name, hash: name, config: '{}', plugins: '{}' };
  return { ...about, reason: 'start', generation: 1, processId: 'p1' } as const;
}

async function sealOne(ledger: Ledger) {
  const said = { ...signal(), sealed: { keyId: 'k1', text: 'v1.a.b' } };
  await ledger.emit([{ signal: said, jobs: [], runs: [] }]);
  return { kind: 'payload', id: said.id, sealed: said.sealed } as const;
}

export const writing = {
  enqueue: async ({ ledger, name }) => {
    const jobs = [draft({ plugin: name, dedupe: strict(name) }), draft({ plugin: name })];
    const contexts = [{ id: name, accumulated: '{}' }];
    const graph = await define(ledger, [task(name)]);
    const runs = [runOf(graph)];
    const signals = [signal()];
    return () => ledger.enqueue({ jobs, contexts, signals, runs });
  },
  startRuns: async ({ ledger, name }) => {
    const graph = await define(ledger, [foreach('each', name), task(name)]);
    const runs = [runOf(graph, { items: [1, 2, 3] }), runOf(graph, { items: [] })];
    const said = signal();
    return () => ledger.startRuns({ jobs: [draft({ plugin: name })], runs, signals: [said] });
  },
  claim: async ({ ledger, name }) => {
    await ledger.enqueue({ jobs: range(5).map(() => draft({ plugin: name })) });
    await ledger.heartbeat(beat(`of ${name}`));
    const asked = request(`of ${name}`, { slots: 3, plugins: [claimable(name)] });
    return () => ledger.claim(asked);
  },
  settle: async (world) => {
    const { ledger, name } = world;
    const job = await begun(world, { dedupe: strict(`own ${name}`) });
    await ledger.enqueue({ jobs: [draft({ plugin: name })] });
    const closing = succeedFully(job, name);
    const claim = request(`of ${name}`, { slots: 1, plugins: [claimable(name)] });
    return () => ledger.settle([closing], claim);
  },
  reap: async (world) => {
    const closings = [crash(await begun(world))];
    const asked = { processId: `of ${world.name}`, staleMs: 0, closings };
    return () => world.ledger.reap(asked);
  },
  cancel: async ({ ledger, name }) => {
    const job = draft({ plugin: name, dedupe: strict(name) });
    await ledger.enqueue({ jobs: [job] });
    return () => ledger.cancel(job.id);
  },
  cancelMany: async (world) => {
    const waits = draft({ plugin: world.name });
    const runs = await begun(world);
    await world.ledger.enqueue({ jobs: [waits] });
    return () => world.ledger.cancelMany([waits.id, runs.id]);
  },
  promote: async ({ ledger, name, sql }) => {
    const job = draft({ plugin: name });
    await ledger.enqueue({ jobs: [job] });
    await sql(`update job_queue set next_retry_at = '${PAST}' where id = ?`, [job.id]);
    return () => ledger.promote();
  },
  prune: async (world) => {
    const { ledger } = world;
    const asked = { what: 'jobs', olderThanMs: 0, limit: 1000 } as const;
    await ledger.settle([succeed(await begun(world))]);
    while ((await ledger.prune(asked)) > 0) await Promise.resolve();
    await ledger.settle([succeed(await begun(world))]);
    return () => ledger.prune(asked);
  },
  heartbeat: async (world) => {
    await begun(world);
    return () => world.ledger.heartbeat(beat(`of ${world.name}`, { slots: 3 }));
  },
  leave: async ({ ledger, name }) => {
    await ledger.heartbeat(beat(name));
    return () => ledger.leave(name);
  },
  awaitEnd: async ({ ledger, name }) => {
    const job = draft({ plugin: name });
    await ledger.enqueue({ jobs: [job] });
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
  setMeta: ({ ledger, name }) => Promise.resolve(() => ledger.setMeta('restored_from', name)),
  rememberDefinitions: async ({ ledger, name }) => {
    const graph = await define(ledger, [task(name)]);
    return () => ledger.rememberDefinitions([{ ...graph, hash: `other ${name}` }]);
  },
  claimBranches: async (world) => {
    const { claim } = await claimWide(world);
    return () => world.ledger.claimBranches(claim);
  },
  advance: async (world) => {
    const { branchId, token } = await takeWide(world);
    return () => world.ledger.advance({ branchId, token });
  },
  releaseBranch: async (world) => {
    const { branchId, token } = await takeWide(world);
    return () => world.ledger.releaseBranch({ branchId, token, error: 'no', triesMax: 1 });
  },
  basePayload: async (world) => {
    const { run } = await claimWide(world);
    return () => world.ledger.basePayload(`${run.id}:0`);
  },
  stepSignal: async (world) => {
    const { run } = await claimWide(world);
    return () =>
      world.ledger.stepSignal({
        runId: run.id,
        branchId: run.id,
        parentJobId: 'job',
        idempotencyKey: 'key',
      });
  },
  emit: ({ ledger }) => {
    const emissions = [emission(), emission()];
    return Promise.resolve(() => ledger.emit(emissions));
  },
  replay: async (world) => {
    const { ledger, name } = world;
    const { directive } = await process(world, 'signal.replay');
    const said = emission(name);
    await ledger.emit([{ ...said, jobs: [] }]);
    const seq = only(await ledger.signals({ id: said.signal.id, limit: 1 })).seq;
    const { id: directiveId, processId } = directive;
    const step = { directiveId, processId, force: false, cursor: seq, ...nothing, signals: 1 };
    const before = { cursor: 0, upTo: seq, ...nothing };
    return () => ledger.replay({ ...step, before, jobs: said.jobs, runs: [] });
  },
  direct: ({ ledger, name }) => {
    const asked = pausing({ target: name, sameness: 'each' });
    return Promise.resolve(() => ledger.direct(asked));
  },
  startDirective: async (world) => {
    const { asked, directive } = await wait(world, false);
    return () => world.ledger.startDirective({ ...asked, directive });
  },
  approveDirective: async (world) => {
    const { directive } = await wait(world, true);
    const decision = { id: directive.id, actor: 'api:ann', signals: [signal()], jobs: [] };
    return () => world.ledger.approveDirective(decision);
  },
  cancelDirective: async (world) => {
    const { directive } = await wait(world, true);
    const decision = { id: directive.id, actor: 'api:ann', signals: [signal()], jobs: [] };
    return () => world.ledger.cancelDirective(decision);
  },
  releaseDirective: async (world) => {
    const { directive } = await process(world, 'signal.replay');
    return () => world.ledger.releaseDirective(directive);
  },
  closeDirective: async (world) => {
    const { directive } = await process(world, 'signal.replay');
    const { id, processId } = directive;
    const end = { status: 'completed', result: {} } as const;
    const closing = { id, processId, end, signals: [signal()], jobs: [draft()] };
    return () => world.ledger.closeDirective(closing);
  },
  retryMany: async (world) => {
    const { ledger } = world;
    const job = await begun(world);
    await ledger.settle([fail(job)]);
    const old = only(await ledger.jobs({ plugin: world.name, limit: 2 }));
    const again = draftRetry(old, { id: makeId(), actor: 'ann', maxAttempts: 2 });
    return () => ledger.retryMany([{ of: old.id, job: again }]);
  },
  claimTokenNames: ({ ledger, name }) => Promise.resolve(() => ledger.claimTokenNames([name])),
  noteTokenUse: ({ ledger }) => Promise.resolve(() => ledger.noteTokenUse(['none'])),
  openKey: ({ ledger, name }) => {
    const key = keyed(name);
    return Promise.resolve(() => ledger.openKey(key));
  },
  closeKey: async ({ ledger, name }) => {
    const key = keyed(name);
    await ledger.openKey(key);
    return () => ledger.closeKey(key, { status: 200, answer: '{}' });
  },
  noteCredentialUse: ({ ledger }) => Promise.resolve(() => ledger.noteCredentialUse(['none'])),
  reseal: async ({ ledger }) => {
    const thing = await sealOne(ledger);
    return () => ledger.reseal([{ ...thing, after: { keyId: 'k2', text: 'v1.x.y' } }]);
  },
  syncSchedules: ({ ledger, name }) =>
    Promise.resolve(() => ledger.syncSchedules([entry({ plugin: name })])),
  retireSchedules: async ({ ledger, name }) => {
    await ledger.syncSchedules([entry({ plugin: name })]);
    return () => ledger.retireSchedules([{ plugin: name, scheduleId: 'default' }]);
  },
  fire: async ({ ledger, name }) => {
    await ledger.syncSchedules([entry({ plugin: name })]);
    const { due } = await ledger.dueSchedules({ now: NOW, limit: 1000 });
    const firings = [firing(only(due.filter(({ plugin }) => plugin === name)))];
    return () => ledger.fire({ now: NOW, firings });
  },
  recordSnapshot: ({ ledger, name }) =>
    Promise.resolve(() => ledger.recordSnapshot(snapshot(name))),
  maskSnapshots: async ({ ledger, name }) => {
    await ledger.recordSnapshot(snapshot(name));
    return () => ledger.maskSnapshots([{ id: name, config: '{}' }]);
  },
  touchSnapshot: async ({ ledger, name }) => {
    await ledger.recordSnapshot(snapshot(name));
    return () => ledger.touchSnapshot(name);
  },
  requireInits: ({ ledger, name }) => {
    const job = draft({ plugin: name, command: 'init', maxAttempts: 1, initFor: 'print' });
    const wish = { plugin: name, fingerprint: 'print', why: 'adopted', job } as const;
    return Promise.resolve(() => ledger.requireInits([wish]));
  },
  reviewHealth: async ({ ledger, name }) => {
    const job = draft({ plugin: name, command: 'init', maxAttempts: 1, initFor: 'print' });
    await ledger.requireInits([{ plugin: name, fingerprint: 'print', why: 'adopted', job }]);
    await ledger.cancel(job.id);
    return () => ledger.reviewHealth();
  },
  noteHealth: ({ ledger, name }) => {
    const note = { plugin: name, status: 'healthy', reason: null, jobId: name } as const;
    return Promise.resolve(() => ledger.noteHealth(note));
  },
  recordObservations: ({ ledger, name }) => {
    const observed = { kind: 'call_refused', key: name, count: 1, detail: '{}' } as const;
    return Promise.resolve(() => ledger.recordObservations([observed]));
  },
  moveIncidents: async ({ ledger, name }) => {
    const about = { kind: 'breaker_open', count: 1, detail: '{}' } as const;
    const old = { ...about, id: makeId(), key: `old ${name}`, emission: emission() };
    await ledger.moveIncidents({ opened: [old], renewed: [], closed: [] });
    const moves = {
      opened: [{ ...about, id: makeId(), key: name, emission: emission() }],
      renewed: [{ id: old.id, count: 1, detail: '{}' }],
      closed: [{ id: old.id, emission: emission() }],
    };
    return () => ledger.moveIncidents(moves);
  },
  takeWatch: ({ ledger }) => Promise.resolve(() => ledger.takeWatch(0)),
  noteInstallation: ({ ledger, name }) =>
    Promise.resolve(() => ledger.noteInstallation(name, 'cannot')),
  notePruned: ({ ledger }) => Promise.resolve(() => ledger.notePruned()),
  addTenant: (world) => Promise.resolve(() => addTenant(world)),
  moveTenant: async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.moveTenant(slug, ['creating', 'active'], 'active');
  },
  setTenantLimits: async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.setTenantLimits(slug, { ...unlimited, workers: 3 });
  },
  forgetTenant: async (world) => {
    const slug = await addTenant(world);
    await world.ledger.addTenantKey('token', `key ${slug}`, slug);
    return () => world.ledger.forgetTenant(slug);
  },
  noteTenantDue: async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.noteTenantDue(slug, 'now');
  },
  noteAllTenantsDue: async (world) => {
    await addTenant(world);
    return () => world.ledger.noteAllTenantsDue();
  },
  awaitTenantClaims: async (world) => {
    const slug = await addTenant(world);
    await world.ledger.noteTenantDue(slug, 'now');
    return () => world.ledger.awaitTenantClaims();
  },
  noteTenantSchema: async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.noteTenantSchema(slug, { version: 1, error: null });
  },
  addTenantKey: async (world) => {
    const slug = await addTenant(world);
    return () => world.ledger.addTenantKey('token', `key ${slug}`, slug);
  },
  dropTenantKey: async (world) => {
    const slug = await addTenant(world);
    await world.ledger.addTenantKey('token', `key ${slug}`, slug);
    return () => world.ledger.dropTenantKey('token', `key ${slug}`);
  },
  receive: ({ ledger, name }) => {
    const deliveries = [delivery(name).whole, delivery(name).whole];
    return Promise.resolve(() => ledger.receive(deliveries));
  },
  noteDelivery: ({ ledger, name }) => {
    const untaken = { ...delivery(name).about, verdict: 'refused', reason: 'no' } as const;
    return Promise.resolve(() => ledger.noteDelivery(untaken));
  },
} satisfies Partial<Record<Verb, Scene>>;
