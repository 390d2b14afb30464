/** What is done all the time may not look at every row: the plans of both databases say so. */
import { describe, expect, test } from 'vitest';
import { prunable, type ClaimedJob, type Ledger } from '../../src/ledger/ledger.ts';
import { foreach, split, task } from '../unit/pipeline/graphs.ts';
import { fillCrowd } from './crowd.ts';
import { openExplainer, type Plan } from './explain.ts';
import { advanceAll, define, done, start } from './run-words.ts';
import { databases, openBench, range, type Kind } from './support.ts';
import { firing } from './schedule-words.ts';
import {
  beat,
  claimable,
  crash,
  draft,
  keyed,
  pausing,
  release,
  request,
  signalOf,
  strict,
  succeed,
  waiting,
} from './words.ts';

const rows = 20_000;
const plugins = range(20).map((index) => claimable(`plugin ${index}`, { parallelism: 100 }));

interface Asked {
  readonly ledger: Ledger;
  readonly claimed: readonly ClaimedJob[];
}

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
  'cancel one that waits': ({ ledger }) => ledger.cancel('job 271'),
  'cancel one that runs': ({ ledger }) => ledger.cancel('job 299'),
  'direct by its own key': ({ ledger }) => ledger.direct(pausing({ sameness: 'each' })),
  'direct anew': ({ ledger }) => ledger.direct(pausing()),
  'find a directive': ({ ledger }) => ledger.directive('directive 77'),
  'list the newest directives': ({ ledger }) => ledger.directives({ limit: 10 }),
  'list directives of a type': ({ ledger }) => ledger.directives({ type: 'type 3', limit: 10 }),
  'look for directives that are due': ({ ledger }) => ledger.dueDirectives(['type 3'], 10),
  'begin a directive that waited': async ({ ledger }) => {
    const { begin, ...asked } = waiting({ due: { inMs: 0 } });
    const { directive } = await ledger.direct({ ...asked, begin });
    return ledger.startDirective({ ...asked, begin, directive });
  },
  'count directives of an hour': ({ ledger }) => ledger.directiveStatistics(3_600_000),
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
  'cancel a run': ({ ledger }) =>
    ledger.direct(pausing({ sameness: 'each' }, { kind: 'run.cancel', runId: 'run 77' })),
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
];

/** The steps that look at a whole table. Rows that are open are few, so their index may be read whole. */
function findScans(kind: Kind, plans: readonly Plan[]): string[] {
  return plans.flatMap(({ statement, steps }) =>
    steps.filter((step) => {
      if (kind === 'postgres') return big.some((table) => step.includes(`Seq Scan on ${table}`));
      const [, alias = ''] =
        /^SCAN (\w+)(?!.*(job_queue_running|directives_open|VIRTUAL TABLE))/.exec(step) ?? [];
      const isNewest = / order by (seq|completed_at) desc/.test(statement);
      const named = new RegExp(`\\b(${big.join('|')}) (as )?${alias}\\b`);
      return !isNewest && alias !== '' && (big.includes(alias) || named.test(statement));
    }),
  );
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
};

describe.each(databases)('with many rows on %s', (kind) => {
  test('no verb looks at all of them', { timeout: 60_000 }, async () => {
    const bench = await openBench(kind);
    await fillCrowd(bench, rows);
    const { ledger, explain } = await openExplainer(bench);
    await ledger.heartbeat(beat('p1'));
    let claimed: readonly ClaimedJob[] = [];
    const claiming = await explain(async () => {
      claimed = await ledger.claim(request('p1', { plugins, slots: 10 }));
    });
    expect(claimed).toHaveLength(10);
    expect({ claim: findScans(kind, claiming) }).toEqual({ claim: [] });
    expect(claiming.flatMap(({ steps }) => steps).join()).toMatch(/job_queue_ready/);
    for (const [name, verb] of Object.entries(verbs)) {
      const plans = await explain(() => verb({ ledger, claimed }));
      if (kind === 'postgres') expect(plans).not.toEqual([]);
      expect({ [name]: findScans(kind, plans) }).toEqual({ [name]: [] });
    }
    for (const what of prunable) {
      const asked = { what, olderThanMs: (1000 * rows) / 2, limit: 10 };
      const plans = await explain(() => ledger.prune(asked));
      const steps = plans.flatMap((plan) => plan.steps).join('\n');
      expect({ [what]: steps }).toEqual({ [what]: expect.stringContaining(indexes[what]) });
    }
  });
});
