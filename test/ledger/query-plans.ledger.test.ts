/** Frequent statements may not read every row: the plans of both databases prove it. */
import { cancelRun } from '../../src/pipeline/run/change.sql.ts';
import { switchPause } from '../../src/job/plugin-state.sql.ts';
import type { DirectiveWork } from '../../src/ledger/directive-work.ts';
import { describe, expect, test } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import { prunableKinds, type ClaimedJob } from '../../src/job/types.ts';
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

interface VerbInput {
  readonly ledger: Ledger;
  readonly claimed: readonly ClaimedJob[];
}

/** The same statements as for a pause, which would leave nothing to claim for the verbs below. */
const unpaused: DirectiveWork = (tx) => switchPause(tx, false);

const verbs: Readonly<Record<string, (asked: VerbInput) => Promise<unknown>>> = {
  enqueue: ({ ledger }) => {
    const jobs = [draft({ dedupe: strict('new') }), draft({ dedupe: strict('key 9') }), draft()];
    const contexts = [{ id: 'new', accumulated: '{}' }];
    const signals = [
      { id: 'new', type: 'a.b', source: 'api', data: '{}', hops: 0, correlationId: 'c' },
    ];
    return ledger.jobs.enqueue({ jobs, contexts, signals });
  },
  'claim again': ({ ledger }) => ledger.jobs.claim(request('p1', { plugins, slots: 5 })),
  'claim what plugins need to be well': ({ ledger }) => {
    const init = { fingerprint: 'print', isHeld: true };
    const held = plugins.map((plugin) => ({ ...plugin, init }));
    return ledger.jobs.claim(request('p1', { plugins: held, slots: 5 }));
  },
  settle: ({ ledger, claimed: [a, b] }) => {
    if (a === undefined || b === undefined) throw new Error('nothing was claimed');
    const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{}' } as const;
    return ledger.jobs.settle([
      succeed(a, { state, signals: [signalOf(a)], jobs: [draft()] }),
      release(b),
    ]);
  },
  'settle again': ({ ledger, claimed: [a] }) =>
    a === undefined ? Promise.resolve() : ledger.jobs.settle([crash(a)]),
  promote: ({ ledger }) => ledger.jobs.promote(),
  heartbeat: ({ ledger }) => ledger.processes.heartbeat(beat('p1')),
  orphans: ({ ledger }) => ledger.processes.listOrphans({ self: 'p1', staleMs: 30_000 }),
  reap: ({ ledger, claimed }) => {
    const closings = claimed.slice(2, 4).map((job) => crash(job));
    return ledger.processes.reap({ processId: 'p1', staleMs: 0, closings });
  },
  'expired claims': ({ ledger }) => ledger.jobs.listExpiredClaims(),
  unrunnable: ({ ledger }) =>
    ledger.jobs.listUnrunnable({ graceMs: 0, staleMs: 30_000, limit: 10 }),
  'queued of one plugin': ({ ledger }) => ledger.jobs.listQueued('none', 10),
  'cancel one that waits': ({ ledger }) => ledger.jobs.cancel('job 271'),
  'cancel one that runs': ({ ledger }) => ledger.jobs.cancel('job 299'),
  'direct by its own key': ({ ledger }) =>
    ledger.directives.create(pausing({ sameness: 'each' }, unpaused)),
  'request a directive': ({ ledger }) => ledger.directives.create(pausing({}, unpaused)),
  'find a directive': ({ ledger }) => ledger.directives.find('directive 77'),
  'list the newest directives': ({ ledger }) => ledger.directives.list({ limit: 10 }),
  'list directives of a type': ({ ledger }) =>
    ledger.directives.list({ type: 'type 3', limit: 10 }),
  'look for directives that are due': ({ ledger }) => ledger.directives.listDue(['type 3'], 10),
  'begin a directive that waited': async ({ ledger }) => {
    const { begin, ...asked } = { ...waiting({ due: { inMs: 0 } }), work: unpaused };
    const { directive } = await ledger.directives.create({ ...asked, begin });
    return ledger.directives.start({ ...asked, begin, directive });
  },
  'count directives of a minute': ({ ledger }) => ledger.directives.readStatistics(60_000),
  'open a key': ({ ledger }) => ledger.idempotencyKeys.open(keyed('key 77')),
  'find a job': ({ ledger }) => ledger.jobs.find('job 77'),
  'find its attempts': ({ ledger }) => ledger.attempts.listByJob(['job 77', 'job 78']),
  'list the newest jobs': ({ ledger }) => ledger.jobs.list({ limit: 10 }),
  'list a lineage': ({ ledger }) => ledger.jobs.list({ rootJobId: 'job 77', limit: 10 }),
  'list children': ({ ledger }) => ledger.jobs.list({ parentJobId: 'job 77', limit: 10 }),
  'list the newest attempts': ({ ledger }) => ledger.attempts.list({ limit: 10 }),
  'list attempts from a moment on': ({ ledger }) =>
    ledger.attempts.list({ since: LONG_AGO, limit: 10 }),
  'list signals of a job': ({ ledger }) => ledger.signals.list({ jobId: 'job 77', limit: 10 }),
  'emit signals': ({ ledger }) => {
    const common = { type: 'a.b', source: 'api', data: '{}', hops: 1, correlationId: 'c' };
    const keys = { causationId: 'signal 7', dedupeKey: 'k', sourceEventId: 'e' };
    const signals = ['emitted', 'again'].map((id) => ({ id, ...common, ...keys }));
    return ledger.signals.emit(signals.map((signal) => ({ signal, jobs: [draft()], runs: [] })));
  },
  'list the newest signals': ({ ledger }) => ledger.signals.list({ limit: 10 }),
  'list signals of a chain': ({ ledger }) => ledger.signals.list({ correlationId: 'c', limit: 10 }),
  'list what a signal led to': ({ ledger }) => ledger.signals.list({ causationId: 'c', limit: 10 }),
  'list signals about something': ({ ledger }) =>
    ledger.signals.list({ subjectType: 'order', subjectId: '7', limit: 10 }),
  'list jobs of a signal': ({ ledger }) => ledger.jobs.list({ sourceEventId: 'c', limit: 10 }),
  'list runs of a signal': ({ ledger }) => ledger.runs.list({ sourceEventId: 'c', limit: 10 }),
  'look for what is due': ({ ledger }) => ledger.schedules.listDue({ now: LONG_AGO, limit: 10 }),
  'fire what is due': async ({ ledger }) => {
    const { due } = await ledger.schedules.listDue({ now: FAR_AHEAD, limit: 5 });
    return ledger.schedules.fire({ now: FAR_AHEAD, firings: due.map((found) => firing(found)) });
  },
  'begin a run': async ({ ledger }) => {
    const baggage = { baggage: [{ to: ['n'], from: ['payload', 'n'] }] };
    const nodes = [split('both', ['l', 'r']), task('l', baggage), task('r')];
    const graph = await define(ledger, nodes);
    return start(ledger, graph, { n: 1 });
  },
  'settle the steps of a run': async ({ ledger }) => {
    await ledger.processes.heartbeat(beat('p1'));
    const steps = [claimable('l'), claimable('r')];
    const claimed = await ledger.jobs.claim(request('p1', { plugins: steps, slots: 2 }));
    return ledger.jobs.settle(claimed.map((job) => done(job)));
  },
  'advance a wide block': async ({ ledger }) => {
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    await start(ledger, graph, { items: range(500) });
    return advanceAll(ledger);
  },
  'list the newest runs': ({ ledger }) => ledger.runs.list({ limit: 10 }),
  'list runs of a lineage': ({ ledger }) => ledger.runs.list({ rootJobId: 'job 77', limit: 10 }),
  'list branches': ({ ledger }) => ledger.runs.listBranches({ runId: 'run 77', limit: 10 }),
  'list steps': ({ ledger }) => ledger.runs.listSteps({ runId: 'run 77', limit: 10 }),
  'list what a branch waits at': ({ ledger }) =>
    ledger.runs.listSteps({ runId: 'run 77', branchId: 'run 77', status: 'waiting', limit: 1 }),
  'cancel a run that is over': ({ ledger }) =>
    direct(ledger, 'run 77', (tx) => cancelRun(tx, 'run 77')),
  'cancel a running run': async ({ ledger }) => {
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    const run = await start(ledger, graph, { items: range(300) });
    await advanceAll(ledger);
    await claimSteps(ledger, graph, 5);
    await direct(ledger, run.id, (tx) => cancelRun(tx, run.id));
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
    await ledger.runs.findRetryFromRefusal(run.id, 'z');
    await carryOn(ledger, graph);
    expect((await ledger.runs.find(third))?.status).toBe('succeeded');
  },
  'decide a step': async ({ ledger }) => {
    const graph = await define(ledger, [approve('ok', { timeoutMs: 60_000 })]);
    const run = await start(ledger, graph);
    return decide(ledger, run.id, 'ok', true);
  },
  'give a branch back': async ({ ledger }) => {
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    await start(ledger, graph, { items: range(150) });
    await ledger.processes.heartbeat(beat('p1'));
    const token = makeToken();
    const { branchIds } = await ledger.runs.claimBranches({ processId: 'p1', token, limit: 10 });
    for (const branchId of branchIds) {
      await ledger.runs.releaseBranch({ branchId, token, error: 'no', triesMax: 9 });
    }
  },
  'find a run': ({ ledger }) => ledger.runs.find('run 77'),
  'find what lies beneath': ({ ledger }) => ledger.runs.readBasePayload('run 77:0'),
  'find the event behind a step': ({ ledger }) =>
    ledger.runs.findStepSignal({
      runId: 'run 77',
      branchId: 'run 77',
      parentJobId: 'job 77',
      idempotencyKey: 'key',
    }),
  'find a definition': ({ ledger }) => ledger.runs.findDefinition(makeToken()),
  'list tries to move a run on': ({ ledger }) => ledger.runs.listAdvancements('run 77', 10),
  'await an end': ({ ledger }) => ledger.awaitEnd('job', 'job 77'),
  'cancel many': ({ ledger }) => ledger.jobs.cancelMany(['job 371', 'job 372']),
  'list what follows from jobs': ({ ledger }) =>
    ledger.jobs.list({ causedBy: ['job 77', 'job 78'], limit: 10 }),
  'find jobs by the beginning of an id': ({ ledger }) =>
    ledger.jobs.list({ idPrefix: 'job 777', limit: 2 }),
  'find runs by the beginning of an id': ({ ledger }) =>
    ledger.runs.list({ idPrefix: 'run 777', limit: 2 }),
  'follow events': async ({ ledger }) => {
    const end = await ledger.events.findEnd();
    return ledger.events.list(end, { rows: 10, bytes: 1000 });
  },
  'look at what plugins need': ({ ledger }) => ledger.plugins.reviewHealth(),
  'find signals by the beginning of an id': ({ ledger }) =>
    ledger.signals.list({ idPrefix: 'signal 777', limit: 2 }),
  'count the attempts of a minute': ({ ledger }) => ledger.attempts.readStatistics(60_000),
  'count open breakers': ({ ledger }) => ledger.breakers.countOpen(),
  'find a snapshot': ({ ledger }) => ledger.snapshots.find('snapshot 77'),
  'list snapshots': ({ ledger }) => ledger.snapshots.list(10),
  'claim within what a tenant may run': ({ ledger }) =>
    ledger.jobs.claim(request('p1', { plugins, slots: 5, workersMax: 1000 })),
  'see what is to be done': ({ ledger }) => ledger.workload.readDue(),
  'see what became of the last delivery to webhooks': ({ ledger }) =>
    ledger.deliveries.listLast('hook7'),
  'list the jobs of agents by delivery': ({ ledger }) =>
    ledger.deliveries.listAgentJobs(['signal 77', 'signal 78']),
  'see what deliveries came to': ({ ledger }) =>
    ledger.deliveries.listTargets(['signal 77', 'signal 78']),
  'see who has a dependency key': ({ ledger }) => ledger.jobs.findDependencyHolder('k'),
  'see how the queue stands': ({ ledger }) => ledger.jobs.readQueueHeads(60_000),
  'watch in turn': ({ ledger }) => ledger.incidents.claimWatch(1000),
  'move incidents': ({ ledger }) => {
    const signal = { id: 'opened', type: 'a.b', source: 'api', data: '{}', hops: 1 };
    const emission = { signal: { ...signal, correlationId: 'c' }, jobs: [], runs: [] };
    const closing = { signal: { ...emission.signal, id: 'closed' }, jobs: [], runs: [] };
    const fresh = { id: 'new', kind: 'disk_full', key: 'state', count: 1, detail: '{}' } as const;
    return ledger.incidents.update({
      opened: [{ ...fresh, emission }],
      renewed: [{ id: 'old', count: 1, detail: '{}' }],
      closed: [{ id: 'old', emission: closing }],
    });
  },
  'see how jobs ended last': ({ ledger }) => ledger.jobs.listLastEnds(100),
  'list attempts of the chain of a job': ({ ledger }) =>
    ledger.attempts.list({ correlationId: 'job 77', limit: 10 }),
  'list attempts of the chain of a signal': ({ ledger }) =>
    ledger.attempts.list({ correlationId: 'none', since: LONG_AGO, limit: 10 }),
  'find the run that continues another': ({ ledger }) =>
    ledger.runs.list({ revivedFrom: 'run 7', limit: 1 }),
  'list runs of a concurrency key': ({ ledger }) =>
    ledger.runs.list({ concurrencyKey: 'key 7', limit: 5 }),
  'find runs that wait for a person': ({ ledger }) =>
    ledger.runs.list({ awaitingApproval: true, limit: 5 }),
  'see how long attempts of a command take': ({ ledger }) =>
    ledger.jobs.listDurations({ plugin: 'echo', command: 'poll' }),
  'find what runs ask': ({ ledger }) => ledger.runs.listApprovalSteps(['run 7', 'run 8']),
  'find what runs wait for': ({ ledger }) => ledger.runs.listWaitingSteps(['run 7', 'run 8']),
  'find retries of jobs': ({ ledger }) =>
    ledger.jobs.list({ retryOf: ['job 7', 'job 8'], limit: 5 }),
  'see who paused': ({ ledger }) =>
    ledger.directives.list({ type: 'system.pause', status: ['completed'], limit: 1 }),
  'list deliveries of a webhook': ({ ledger }) =>
    ledger.deliveries.list({ webhookId: 'h', limit: 5 }),
  'find deliveries by the beginning of an id': ({ ledger }) =>
    ledger.deliveries.list({ idPrefix: 'delivery 777', limit: 2 }),
  'see what is wrong': ({ ledger }) => ledger.incidents.list({ isOpen: true, limit: 9 }),
  'see what a job is behind': ({ ledger }) =>
    ledger.jobs.readQueuePosition({ plugin: 'echo', seq: 9 }),
  'find a tenant': ({ ledger }) => ledger.tenants.find('tenant77'),
  'look for tenants that are due': ({ ledger }) => ledger.tenants.listDue(10),
  'note when a tenant is due': async ({ ledger }) => {
    await ledger.tenants.recordDue('tenant77', 'now');
    await ledger.tenants.recordDue('tenant77', { at: FAR_AHEAD });
    await ledger.tenants.recordDue('tenant77', null);
  },
  'note the schema of a tenant': ({ ledger }) =>
    ledger.tenants.recordSchema('tenant77', { version: 1, error: null }),
  'make, limit and suspend a tenant': async ({ ledger }) => {
    const none = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };
    await ledger.tenants.insert({ slug: 'newest', title: 't', limits: none, createdBy: 'api' });
    await ledger.tenants.updateLimits('newest', none);
    await ledger.tenants.updateStatus('newest', ['creating'], 'suspended');
  },
  'add, follow and drop the key of a tenant': async ({ ledger }) => {
    await ledger.tenants.insertKey('token', 'new', 'tenant77');
    await ledger.tenants.findByKey('token', 'new');
    await ledger.tenants.deleteKey('token', 'new');
  },
  'forget a tenant': ({ ledger }) => ledger.tenants.delete('tenant78'),
  leave: ({ ledger }) => ledger.processes.leave('p1'),
  'show transitions': ({ ledger }) =>
    ledger.breakers.listTransitions({ plugin: 'plugin 3', limit: 10 }),
  'list facts': ({ ledger }) => ledger.plugins.listFacts('plugin 3', 10),
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

/** The rows of one table that a statement may visit; a full scan visits many times that. */
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
    // The newest rows are read up to the length of the list, unless there is a search.
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
  test('no verb looks at all of them', async () => {
    const bench = await openBench(kind);
    await fillTables(bench, rows);
    const { ledger, explain } = await openExplainer(bench);
    await ledger.processes.heartbeat(beat('p1'));
    let claimed: readonly ClaimedJob[] = [];
    const claiming = await explain(async () => {
      claimed = await ledger.jobs.claim(request('p1', { plugins, slots: 10 }));
    });
    expect(claimed).toHaveLength(10);
    expect({ claim: findScans(kind, claiming) }).toEqual({ claim: [] });
    const ways = claiming.flatMap(({ steps }) => steps).join();
    expect(ways).toMatch(/job_queue_ready/);
    expect(ways).toMatch(/job_queue_keyed/);
    expect(ways).toMatch(/job_queue_dependency/);
    const scans: Record<string, string[]> = {};
    // A statement that has to read all rows is recognized.
    const words = { query: 'no such words', order: 'oldest', limit: 1 } as const;
    expect(findScans(kind, await explain(() => ledger.jobs.list(words)))).not.toEqual([]);
    for (const [name, verb] of Object.entries(verbs)) {
      const plans = await explain(() => verb({ ledger, claimed }));
      if (kind === 'postgres') expect(plans).not.toEqual([]);
      scans[name] = findScans(kind, plans);
    }
    expect(Object.entries(scans).filter(([, found]) => found.length > 0)).toEqual([]);
    for (const what of prunableKinds) {
      const input = { what, olderThanMs: (1000 * rows) / 2, limit: 10 };
      const plans = await explain(() => ledger.history.prune(input));
      const steps = plans.flatMap((plan) => plan.steps).join('\n');
      expect({ [what]: steps }).toEqual({ [what]: expect.stringContaining(indexes[what]) });
    }
  });
});
