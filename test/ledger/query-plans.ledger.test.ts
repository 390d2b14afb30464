/** What is done all the time may not look at every row: the plans of both databases say so. */
import { describe, expect, test } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import { prunable, type ClaimedJob } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { approve, foreach, split, task } from '../pipeline/graphs.ts';
import { fillTables } from '../support/ledger/many-rows.ts';
import { countVisits, openExplainer, type Plan } from '../support/ledger/explain.ts';
import { decide, direct, revive } from '../support/ledger/run-directives.ts';
import { advanceAll, carryOn, claimSteps, define, done, start } from '../support/ledger/runs.ts';
import { databases, openBench, range, type Kind } from '../support/ledger/bench.ts';
import { firing } from '../support/ledger/schedules.ts';
import {
  beat,
  claimable,
  crash,
  draft,
  fail,
  keyed,
  pausing,
  release,
  request,
  signalOf,
  strict,
  succeed,
  waiting,
} from '../support/ledger/drafts.ts';

const rows = 20_000;
const plugins = range(20).map((index) => claimable(`plugin ${index}`, { parallelism: 100 }));

interface Asked {
  readonly ledger: Ledger;
  readonly claimed: readonly ClaimedJob[];
}

/** The same statements as for a pause, which would leave nothing to claim for the verbs below. */
const unpaused = { kind: 'system.pause', paused: false } as const;

const verbs: Readonly<Record<string, (asked: Asked) => Promise<unknown>>> = {
  enqueue: ({ ledger }) => {
    const jobs = [draft({ dedupe: strict('new') }), draft({ dedupe: strict('key 9') }), draft()];
    const contexts = [{ id: 'new', accumulated: '{}' }];
    const signals = [
      { id: 'new', type: 'a.b', source: 'api', data: '{}', hops: 0, correlationId: 'c' },
    ];
    return ledger.enqueue({ jobs, contexts, signals });
  },
  'claim anew': ({ ledger }) => ledger.claim(request('p1', { plugins, slots: 5 })),
  'claim what plugins need to be well': ({ ledger }) => {
    const init = { fingerprint: 'print', isHeld: true };
    const held = plugins.map((plugin) => ({ ...plugin, init }));
    return ledger.claim(request('p1', { plugins: held, slots: 5 }));
  },
  settle: ({ ledger, claimed: [a, b] }) => {
    if (a === undefined || b === undefined) throw new Error('nothing was claimed');
    const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{}' } as const;
    return ledger.settle([
      succeed(a, { state, signals: [signalOf(a)], jobs: [draft()] }),
      release(b),
    ]);
  },
  'settle again': ({ ledger, claimed: [a] }) =>
    a === undefined ? Promise.resolve() : ledger.settle([crash(a)]),
  promote: ({ ledger }) => ledger.promote(),
  heartbeat: ({ ledger }) => ledger.heartbeat(beat('p1')),
  orphans: ({ ledger }) => ledger.orphans({ self: 'p1', staleMs: 30_000 }),
  reap: ({ ledger, claimed }) => {
    const closings = claimed.slice(2, 4).map((job) => crash(job));
    return ledger.reap({ processId: 'p1', staleMs: 0, closings });
  },
  'expired claims': ({ ledger }) => ledger.expiredClaims(),
  unrunnable: ({ ledger }) => ledger.unrunnable({ graceMs: 0, staleMs: 30_000, limit: 10 }),
  'queued of one plugin': ({ ledger }) => ledger.queuedOf('none', 10),
  'cancel one that waits': ({ ledger }) => ledger.cancel('job 271'),
  'cancel one that runs': ({ ledger }) => ledger.cancel('job 299'),
  'direct by its own key': ({ ledger }) => ledger.direct(pausing({ sameness: 'each' }, unpaused)),
  'direct anew': ({ ledger }) => ledger.direct(pausing({}, unpaused)),
  'find a directive': ({ ledger }) => ledger.directive('directive 77'),
  'list the newest directives': ({ ledger }) => ledger.directives({ limit: 10 }),
  'list directives of a type': ({ ledger }) => ledger.directives({ type: 'type 3', limit: 10 }),
  'look for directives that are due': ({ ledger }) => ledger.dueDirectives(['type 3'], 10),
  'begin a directive that waited': async ({ ledger }) => {
    const { begin, ...asked } = { ...waiting({ due: { inMs: 0 } }), work: unpaused };
    const { directive } = await ledger.direct({ ...asked, begin });
    return ledger.startDirective({ ...asked, begin, directive });
  },
  'count directives of a minute': ({ ledger }) => ledger.directiveStatistics(60_000),
  'open a key': ({ ledger }) => ledger.openKey(keyed('key 77')),
  'find a job': ({ ledger }) => ledger.job('job 77'),
  'find its attempts': ({ ledger }) => ledger.attempts(['job 77', 'job 78']),
  'list the newest jobs': ({ ledger }) => ledger.jobs({ limit: 10 }),
  'list a lineage': ({ ledger }) => ledger.jobs({ rootJobId: 'job 77', limit: 10 }),
  'list children': ({ ledger }) => ledger.jobs({ parentJobId: 'job 77', limit: 10 }),
  'list the newest attempts': ({ ledger }) => ledger.attemptsOf({ limit: 10 }),
  'list attempts from a moment on': ({ ledger }) =>
    ledger.attemptsOf({ since: LONG_AGO, limit: 10 }),
  'list signals of a job': ({ ledger }) => ledger.signals({ jobId: 'job 77', limit: 10 }),
  'emit signals': ({ ledger }) => {
    const common = { type: 'a.b', source: 'api', data: '{}', hops: 1, correlationId: 'c' };
    const keys = { causationId: 'signal 7', dedupeKey: 'k', sourceEventId: 'e' };
    const signals = ['emitted', 'again'].map((id) => ({ id, ...common, ...keys }));
    return ledger.emit(signals.map((signal) => ({ signal, jobs: [draft()], runs: [] })));
  },
  'list the newest signals': ({ ledger }) => ledger.signals({ limit: 10 }),
  'list signals of a chain': ({ ledger }) => ledger.signals({ correlationId: 'c', limit: 10 }),
  'list what a signal led to': ({ ledger }) => ledger.signals({ causationId: 'c', limit: 10 }),
  'list signals about something': ({ ledger }) =>
    ledger.signals({ subjectType: 'order', subjectId: '7', limit: 10 }),
  'list jobs of a signal': ({ ledger }) => ledger.jobs({ sourceEventId: 'c', limit: 10 }),
  'list runs of a signal': ({ ledger }) => ledger.runs({ sourceEventId: 'c', limit: 10 }),
  'look for what is due': ({ ledger }) => ledger.dueSchedules({ now: LONG_AGO, limit: 10 }),
  'fire what is due': async ({ ledger }) => {
    const { due } = await ledger.dueSchedules({ now: FAR_AHEAD, limit: 5 });
    return ledger.fire({ now: FAR_AHEAD, firings: due.map((found) => firing(found)) });
  },
  'begin a run': async ({ ledger }) => {
    const baggage = { baggage: [{ to: ['n'], from: ['payload', 'n'] }] };
    const nodes = [split('both', ['l', 'r']), task('l', baggage), task('r')];
    const graph = await define(ledger, nodes);
    return start(ledger, graph, { n: 1 });
  },
  'settle the steps of a run': async ({ ledger }) => {
    await ledger.heartbeat(beat('p1'));
    const steps = [claimable('l'), claimable('r')];
    const claimed = await ledger.claim(request('p1', { plugins: steps, slots: 2 }));
    return ledger.settle(claimed.map((job) => done(job)));
  },
  'advance a wide block': async ({ ledger }) => {
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    await start(ledger, graph, { items: range(500) });
    return advanceAll(ledger);
  },
  'list the newest runs': ({ ledger }) => ledger.runs({ limit: 10 }),
  'list runs of a lineage': ({ ledger }) => ledger.runs({ rootJobId: 'job 77', limit: 10 }),
  'list branches': ({ ledger }) => ledger.branches({ runId: 'run 77', limit: 10 }),
  'list steps': ({ ledger }) => ledger.steps({ runId: 'run 77', limit: 10 }),
  'list what a branch waits at': ({ ledger }) =>
    ledger.steps({ runId: 'run 77', branchId: 'run 77', status: 'waiting', limit: 1 }),
  'cancel a run that is over': ({ ledger }) =>
    direct(ledger, 'run 77', { kind: 'run.cancel', runId: 'run 77' }),
  'cancel a run under way': async ({ ledger }) => {
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    const run = await start(ledger, graph, { items: range(300) });
    await advanceAll(ledger);
    await claimSteps(ledger, graph, 5);
    await direct(ledger, run.id, { kind: 'run.cancel', runId: run.id });
    return advanceAll(ledger);
  },
  'revive a run, from the beginning and from a step': async ({ ledger }) => {
    const graph = await define(ledger, [
      foreach('each', 'a', { concurrency: 2, next: 'z' }),
      task('a'),
      task('z'),
    ]);
    const run = await start(ledger, graph, { items: range(5) });
    await carryOn(ledger, graph, (job) => (job.stepId === 'z' ? fail(job) : done(job)));
    const second = await revive(ledger, run.id);
    await carryOn(ledger, graph, (job) => fail(job));
    const third = await revive(ledger, second, { from: 'a' });
    await ledger.refusesRewind(run.id, 'z');
    await carryOn(ledger, graph);
    expect((await ledger.run(third))?.status).toBe('succeeded');
  },
  'decide a step': async ({ ledger }) => {
    const graph = await define(ledger, [approve('ok', { timeoutMs: 60_000 })]);
    const run = await start(ledger, graph);
    return decide(ledger, run.id, 'ok', true);
  },
  'give a branch back': async ({ ledger }) => {
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    await start(ledger, graph, { items: range(150) });
    await ledger.heartbeat(beat('p1'));
    const token = makeToken();
    const { branchIds } = await ledger.claimBranches({ processId: 'p1', token, limit: 10 });
    for (const branchId of branchIds) {
      await ledger.releaseBranch({ branchId, token, error: 'no', triesMax: 9 });
    }
  },
  'find a run': ({ ledger }) => ledger.run('run 77'),
  'find what lies beneath': ({ ledger }) => ledger.basePayload('run 77:0'),
  'find the event behind a step': ({ ledger }) =>
    ledger.stepSignal({
      runId: 'run 77',
      branchId: 'run 77',
      parentJobId: 'job 77',
      idempotencyKey: 'key',
    }),
  'find a definition': ({ ledger }) => ledger.definition(makeToken()),
  'list tries to move a run on': ({ ledger }) => ledger.advancements('run 77', 10),
  'await an end': ({ ledger }) => ledger.awaitEnd('job', 'job 77'),
  'cancel many': ({ ledger }) => ledger.cancelMany(['job 371', 'job 372']),
  'list what follows from jobs': ({ ledger }) =>
    ledger.jobs({ causedBy: ['job 77', 'job 78'], limit: 10 }),
  'find jobs by the beginning of an id': ({ ledger }) =>
    ledger.jobs({ idPrefix: 'job 777', limit: 2 }),
  'find runs by the beginning of an id': ({ ledger }) =>
    ledger.runs({ idPrefix: 'run 777', limit: 2 }),
  'follow events': async ({ ledger }) => {
    const end = await ledger.eventEnd();
    return ledger.events(end, { rows: 10, bytes: 1000 });
  },
  'look at what plugins need': ({ ledger }) => ledger.reviewHealth(),
  'find signals by the beginning of an id': ({ ledger }) =>
    ledger.signals({ idPrefix: 'signal 777', limit: 2 }),
  'count the attempts of a minute': ({ ledger }) => ledger.attemptStatistics(60_000),
  'count open breakers': ({ ledger }) => ledger.countOpenBreakers(),
  'find a snapshot': ({ ledger }) => ledger.snapshot('snapshot 77'),
  'list snapshots': ({ ledger }) => ledger.snapshots(10),
  'claim within what a tenant may run': ({ ledger }) =>
    ledger.claim(request('p1', { plugins, slots: 5, workersMax: 1000 })),
  'see what is to be done': ({ ledger }) => ledger.outlook(),
  'see what became of the last delivery to webhooks': ({ ledger }) =>
    ledger.lastDeliveries('hook7'),
  'see what deliveries told agents': ({ ledger }) => ledger.agentJobs(['signal 77', 'signal 78']),
  'see what deliveries came to': ({ ledger }) => ledger.targets(['signal 77', 'signal 78']),
  'see who has a dependency key': ({ ledger }) => ledger.dependencyHolder('k'),
  'see how the queue stands': ({ ledger }) => ledger.queueHeads(60_000),
  'watch in turn': ({ ledger }) => ledger.takeWatch(1000),
  'move incidents': ({ ledger }) => {
    const signal = { id: 'opened', type: 'a.b', source: 'api', data: '{}', hops: 1 };
    const emission = { signal: { ...signal, correlationId: 'c' }, jobs: [], runs: [] };
    const closing = { signal: { ...emission.signal, id: 'closed' }, jobs: [], runs: [] };
    const fresh = { id: 'new', kind: 'disk_full', key: 'state', count: 1, detail: '{}' } as const;
    return ledger.moveIncidents({
      opened: [{ ...fresh, emission }],
      renewed: [{ id: 'old', count: 1, detail: '{}' }],
      closed: [{ id: 'old', emission: closing }],
    });
  },
  'see how jobs ended last': ({ ledger }) => ledger.lastEnds(100),
  'list attempts of the chain of a job': ({ ledger }) =>
    ledger.attemptsOf({ correlationId: 'job 77', limit: 10 }),
  'list attempts of the chain of a signal': ({ ledger }) =>
    ledger.attemptsOf({ correlationId: 'none', since: LONG_AGO, limit: 10 }),
  'find the run that goes on with another': ({ ledger }) =>
    ledger.runs({ revivedFrom: 'run 7', limit: 1 }),
  'list runs of a concurrency key': ({ ledger }) =>
    ledger.runs({ concurrencyKey: 'key 7', limit: 5 }),
  'find runs that wait for a person': ({ ledger }) =>
    ledger.runs({ awaitingApproval: true, limit: 5 }),
  'see how long attempts of a command take': ({ ledger }) =>
    ledger.runDurations({ plugin: 'echo', command: 'poll' }),
  'find what runs ask': ({ ledger }) => ledger.questions(['run 7', 'run 8']),
  'find what runs wait for': ({ ledger }) => ledger.pauses(['run 7', 'run 8']),
  'find retries of jobs': ({ ledger }) => ledger.jobs({ retryOf: ['job 7', 'job 8'], limit: 5 }),
  'see who paused': ({ ledger }) =>
    ledger.directives({ type: 'system.pause', status: ['completed'], limit: 1 }),
  'list deliveries of a webhook': ({ ledger }) => ledger.deliveries({ hookId: 'h', limit: 5 }),
  'find deliveries by the beginning of an id': ({ ledger }) =>
    ledger.deliveries({ idPrefix: 'delivery 777', limit: 2 }),
  'see what is wrong': ({ ledger }) => ledger.incidents({ isOpen: true, limit: 9 }),
  'see what a job is behind': ({ ledger }) => ledger.line({ plugin: 'echo', seq: 9 }),
  'find a tenant': ({ ledger }) => ledger.tenant('tenant77'),
  'look for tenants that are due': ({ ledger }) => ledger.dueTenants(10),
  'note when a tenant is due': async ({ ledger }) => {
    await ledger.noteTenantDue('tenant77', 'now');
    await ledger.noteTenantDue('tenant77', { at: FAR_AHEAD });
    await ledger.noteTenantDue('tenant77', null);
  },
  'note the schema of a tenant': ({ ledger }) =>
    ledger.noteTenantSchema('tenant77', { version: 1, error: null }),
  'make, limit and suspend a tenant': async ({ ledger }) => {
    const none = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };
    await ledger.addTenant({ slug: 'newest', title: 't', limits: none, createdBy: 'api' });
    await ledger.setTenantLimits('newest', none);
    await ledger.moveTenant('newest', ['creating'], 'suspended');
  },
  'add, follow and drop the key of a tenant': async ({ ledger }) => {
    await ledger.addTenantKey('token', 'new', 'tenant77');
    await ledger.tenantOfKey('token', 'new');
    await ledger.dropTenantKey('token', 'new');
  },
  'forget a tenant': ({ ledger }) => ledger.forgetTenant('tenant78'),
  leave: ({ ledger }) => ledger.leave('p1'),
  'show transitions': ({ ledger }) => ledger.transitions({ plugin: 'plugin 3', limit: 10 }),
  'list facts': ({ ledger }) => ledger.facts('plugin 3', 10),
};

const LONG_AGO = '2000-01-01T00:00:00.000Z';
const FAR_AHEAD = '2100-01-01T00:00:00.000Z';

const big = [
  'job_queue',
  'job_log',
  'job_dedupe',
  'signals',
  'plugin_facts',
  'event_context',
  'directives',
  'idempotency_keys',
  'schedules',
  'circuit_breaker_transitions',
  'pipeline_runs',
  'pipeline_definitions',
  'run_branches',
  'run_steps',
  'run_advancements',
  'tenants',
  'tenant_keys',
];

/** As many rows of one table as a statement may visit; a look at a whole one is many times that. */
const VISITED_MAX = 1000;

/** The steps that look at a whole table, or at much more of it than they give. */
function findScans(kind: Kind, plans: readonly Plan[]): string[] {
  return plans.flatMap((plan) => (kind === 'postgres' ? findVisits(plan) : findWalks(plan)));
}

/** PostgreSQL counts the rows that it really visited. */
function findVisits(plan: Plan): string[] {
  return countVisits(plan)
    .filter(({ table, rows: visited }) => big.includes(table) && visited > VISITED_MAX)
    .map(({ step }) => step);
}

/** SQLite only says how it would go about it. Rows that are open are few: their index may be read whole. */
function findWalks({ statement, steps }: Plan): string[] {
  return steps.filter((step) => {
    const [, alias = ''] =
      /^SCAN (\w+)(?!.*(job_queue_running|run_branches_claimed|directives_open|VIRTUAL TABLE))/.exec(
        step,
      ) ?? [];
    // What is newest is walked no further than the list is long, unless something is looked for.
    const isNewest = /\bwhere true\s+order by \w+ desc/.test(statement);
    const named = new RegExp(`\\b(${big.join('|')}) (as )?${alias}\\b`);
    return !isNewest && alias !== '' && (big.includes(alias) || named.test(statement));
  });
}

const indexes = {
  jobs: 'job_queue_completed',
  attempts: 'job_log_completed',
  signals: 'signals_inserted',
  facts: 'plugin_facts_created',
  contexts: 'event_context_created',
  dedupe: 'job_dedupe_expiry',
  directives: 'directives_completed',
  keys: 'idempotency_keys_created',
  tokens: 'api_tokens_ended',
  snapshots: 'config_snapshots_used',
  health: 'plugin_health_seen',
  schedules: 'schedules_retired',
  transitions: 'circuit_breaker_transitions_created',
  runs: 'pipeline_runs_completed',
  definitions: 'pipeline_definitions_used',
  deliveries: 'webhook_deliveries_age',
  incidents: 'incidents_closed',
};

describe.each(databases)('with many rows on %s', (kind) => {
  test('no verb looks at all of them', { timeout: 180_000 }, async () => {
    const bench = await openBench(kind);
    await fillTables(bench, rows);
    const { ledger, explain } = await openExplainer(bench);
    await ledger.heartbeat(beat('p1'));
    let claimed: readonly ClaimedJob[] = [];
    const claiming = await explain(async () => {
      claimed = await ledger.claim(request('p1', { plugins, slots: 10 }));
    });
    expect(claimed).toHaveLength(10);
    expect({ claim: findScans(kind, claiming) }).toEqual({ claim: [] });
    const ways = claiming.flatMap(({ steps }) => steps).join();
    expect(ways).toMatch(/job_queue_ready/);
    expect(ways).toMatch(/job_queue_keyed/);
    expect(ways).toMatch(/job_queue_dependency/);
    const scans: Record<string, string[]> = {};
    // What would have to look at all of them is seen to do so.
    const words = { query: 'no such words', order: 'oldest', limit: 1 } as const;
    expect(findScans(kind, await explain(() => ledger.jobs(words)))).not.toEqual([]);
    for (const [name, verb] of Object.entries(verbs)) {
      const plans = await explain(() => verb({ ledger, claimed }));
      if (kind === 'postgres') expect(plans).not.toEqual([]);
      scans[name] = findScans(kind, plans);
    }
    expect(Object.entries(scans).filter(([, found]) => found.length > 0)).toEqual([]);
    for (const what of prunable) {
      const asked = { what, olderThanMs: (1000 * rows) / 2, limit: 10 };
      const plans = await explain(() => ledger.prune(asked));
      const steps = plans.flatMap((plan) => plan.steps).join('\n');
      expect({ [what]: steps }).toEqual({ [what]: expect.stringContaining(indexes[what]) });
    }
  });
});
