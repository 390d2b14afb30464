import { channel } from 'node:diagnostics_channel';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Directive, DirectiveMoment } from '../directive/directive.ts';
import { isTerminal } from '../job/job.ts';
import type { Closing } from '../ledger/commit.ts';
import type { SignalDraft } from '../signal/signal.ts';

/** The counters and histograms of one process since it started, for all of its ledgers. */
export interface Metrics {
  /** Counts ended attempts, after their commit. */
  countAttempts(closings: readonly Closing[]): void;
  /** Records the duration of a transaction, from its request to its commit. */
  observeCommit(ms: number): void;
  countDelivery(status: number): void;
  /** Returns everything so far. The lag of the event loop is the one since the last read. */
  read(): readonly MetricFamily[];
}

export interface MetricFamily {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly samples: readonly MetricSample[];
}

interface MetricSample {
  /** The text after the name of the family, such as `_bucket`. */
  readonly suffix?: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The most values of one label. Further ones are counted together, so that a monitor doesn't fill up. */
const LABELS_MAX = 200;
const OTHER = '_other';

const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];

export function makeMetrics(): Metrics {
  const plugins = new Set<string>();
  const jobs = new Counter();
  const attempts = new Counter();
  const deliveries = new Counter();
  const phases = phaseNames.map((phase) => ({ phase, histogram: new Histogram() }));
  const commits = new Histogram();
  let lag: Lag | undefined;

  const labelOf = (plugin: string): string => {
    if (!plugins.has(plugin) && plugins.size >= LABELS_MAX) return OTHER;
    plugins.add(plugin);
    return plugin;
  };

  return {
    countAttempts(closings) {
      for (const { job, report, ending } of closings) {
        const plugin = labelOf(job.plugin);
        attempts.add({ plugin, status: report.status });
        if (isTerminal(ending.status)) jobs.add({ plugin, status: ending.status });
        for (const { phase, histogram } of phases) {
          const ms = report[`${phase}Ms`];
          if (ms !== null) histogram.observe(ms / 1000);
        }
      }
    },
    observeCommit: (ms) => commits.observe(ms / 1000),
    countDelivery: (status) => deliveries.add({ verdict: verdictOf(status) }),
    read() {
      lag ??= startLag();
      return [
        counter('ductile_jobs_total', 'Jobs that have ended, by plugin and status.', jobs),
        counter(
          'ductile_attempts_total',
          'Attempts that have ended, by plugin and status.',
          attempts,
        ),
        {
          name: 'ductile_attempt_phase_seconds',
          type: 'histogram',
          help: 'Duration of each phase of an attempt: queue, spawn, run and settle.',
          samples: phases.flatMap(({ phase, histogram }) => histogram.samples({ phase })),
        },
        {
          name: 'ductile_ledger_commit_seconds',
          type: 'histogram',
          help: 'Duration of transactions that settle and claim jobs, up to the commit.',
          samples: commits.samples({}),
        },
        counter(
          'ductile_webhook_deliveries_total',
          'Deliveries to webhooks, by verdict.',
          deliveries,
        ),
        readLag(lag),
      ];
    },
  };
}

const LAG_RESOLUTION_MS = 20;

type Lag = ReturnType<typeof monitorEventLoopDelay>;

const phaseNames = ['queue', 'spawn', 'run', 'settle'] as const;

function verdictOf(status: number): string {
  if (status < 300) return 'accepted';
  if (status === 429) return 'limited';
  return status === 422 || status >= 500 ? 'failed' : 'refused';
}

/** Starts to measure. That costs a timer, so it starts with the first read. */
function startLag(): Lag {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  lag.enable();
  return lag;
}

function readLag(lag: Lag): MetricFamily {
  const at = (percentile: number): number =>
    // Node measures the time between two timers, which includes the interval itself.
    lag.count === 0 ? 0 : Math.max(0, lag.percentile(percentile) / 1e9 - LAG_RESOLUTION_MS / 1000);
  const samples = [
    { labels: { quantile: '0.5' }, value: at(50) },
    { labels: { quantile: '0.99' }, value: at(99) },
    { labels: { quantile: '1' }, value: at(100) },
  ];
  lag.reset();
  return {
    name: 'ductile_event_loop_lag_seconds',
    type: 'gauge',
    help: 'Delay of the event loop since the previous read of the metrics.',
    samples,
  };
}

function counter(name: string, help: string, counted: Counter): MetricFamily {
  return { name, type: 'counter', help, samples: counted.samples() };
}

class Counter {
  readonly #counts = new Map<string, { labels: Record<string, string>; value: number }>();

  add(labels: Record<string, string>): void {
    const key = Object.values(labels).join('\n');
    const known = this.#counts.get(key);
    if (known === undefined) this.#counts.set(key, { labels, value: 1 });
    else known.value += 1;
  }

  samples(): MetricSample[] {
    return [...this.#counts.values()].map((sample) => ({ ...sample }));
  }
}

class Histogram {
  readonly #counts = Array.from({ length: BUCKETS.length + 1 }, () => 0);
  #sum = 0;

  observe(seconds: number): void {
    const found = BUCKETS.findIndex((most) => seconds <= most);
    const at = found === -1 ? BUCKETS.length : found;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sum += seconds;
  }

  samples(labels: Readonly<Record<string, string>>): MetricSample[] {
    let count = 0;
    const buckets = this.#counts.map((more, index) => {
      count += more;
      const le = index === BUCKETS.length ? '+Inf' : String(BUCKETS[index]);
      return { suffix: '_bucket', labels: { ...labels, le }, value: count };
    });
    return [
      ...buckets,
      { suffix: '_sum', labels, value: this.#sum },
      { suffix: '_count', labels, value: count },
    ];
  }
}

/** The media type of the text format that Prometheus reads. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Formats metrics for Prometheus. Values of labels are escaped, so that they can't add lines or labels. */
export function formatMetrics(families: readonly MetricFamily[]): string {
  return families
    .map(({ name, type, help, samples }) =>
      [
        `# HELP ${name} ${escape(help, /[\\\n]/g)}`,
        `# TYPE ${name} ${type}`,
        ...samples.map((sample) => writeSample(name, sample)),
      ].join('\n'),
    )
    .map((text) => `${text}\n`)
    .join('');
}

function writeSample(name: string, { suffix = '', labels, value }: MetricSample): string {
  const written = Object.entries(labels).map(
    ([label, text]) => `${label}="${escape(text, /[\\"\n]/g)}"`,
  );
  const braces = written.length === 0 ? '' : `{${written.join(',')}}`;
  return `${name}${suffix}${braces} ${value}`;
}

function escape(text: string, unsafe: RegExp): string {
  // A carriage return doesn't end a line for Prometheus, but it does for some programs behind it.
  return text
    .toWellFormed()
    .replaceAll('\r', ' ')
    .replaceAll(unsafe, (char) => (char === '\n' ? String.raw`\n` : `\\${char}`));
}

/** The signals and directives that one process has committed since it started. */
export interface ProcessCounts {
  readonly signalsEmitted: number;
  readonly directivesRequested: number;
  readonly directivesCompleted: number;
  readonly directivesFailed: number;
  readonly directivesCancelled: number;
}

/**
 * Counts signals and directives after their commit. It also publishes them within the process, on the
 * diagnostics channels `ductile:signal:emitted` and `ductile:directive:<moment>`.
 */
interface ProcessCounter {
  read(): ProcessCounts;
  countSignals(signals: readonly SignalDraft[]): void;
  /** Counts a moment of a directive, and its signal. */
  countDirective(directive: CountedDirective, moment: DirectiveMoment): void;
}

type CountedDirective = Pick<Directive, 'id' | 'type' | 'target' | 'actor' | 'correlationId'>;

const emittedChannel = channel('ductile:signal:emitted');

/** The tenant is undefined for the root ledger. */
export function makeProcessCounter(tenant?: string): ProcessCounter {
  let signalsEmitted = 0;
  const moments = new Map<DirectiveMoment, number>();
  const countOf = (moment: DirectiveMoment): number => moments.get(moment) ?? 0;
  return {
    read: () => ({
      signalsEmitted,
      directivesRequested: countOf('requested'),
      directivesCompleted: countOf('completed'),
      directivesFailed: countOf('failed'),
      directivesCancelled: countOf('cancelled'),
    }),
    countSignals(signals) {
      signalsEmitted += signals.length;
      if (!emittedChannel.hasSubscribers) return;
      for (const { id, type, source, correlationId } of signals) {
        emittedChannel.publish({ tenant, id, type, source, correlationId });
      }
    },
    countDirective({ id, type, target, actor, correlationId }, moment) {
      signalsEmitted += 1;
      moments.set(moment, countOf(moment) + 1);
      const momentChannel = channel(`ductile:directive:${moment}`);
      if (momentChannel.hasSubscribers)
        momentChannel.publish({ tenant, id, type, target, actor, correlationId });
    },
  };
}
