import * as z from 'zod';
import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { type MetricFamily, METRICS_TYPE, formatMetrics } from './metrics.service.ts';
import { incidentKinds } from './findings/all.ts';
import { defineOperation } from '../operation/define.ts';
import { figuresOf } from '../job/figures.operations.ts';

const metricsShape = z.object({
  families: z.array(
    z.object({
      name: z.string(),
      type: z.enum(['counter', 'gauge', 'histogram']),
      help: z.string(),
      samples: z.array(
        z.object({
          suffix: z.string().optional().describe('text after the name, such as _bucket'),
          labels: z.record(z.string(), z.string()),
          value: z.number(),
        }),
      ),
    }),
  ),
});

export const systemMetrics = defineOperation({
  name: 'system.metrics',
  summary: 'Show metrics in the text format of Prometheus.',
  effect: 'read',
  needs: 'server',
  isForRoot: true,
  scope: 'metrics:ro',
  input: z.strictObject({}),
  output: metricsShape,
  errors: ['LEDGER_UNAVAILABLE'],
  http: {
    method: 'GET',
    path: '/metrics',
    openTo: 'scrapers',
    textForm: {
      type: METRICS_TYPE,
      write: (output) => formatMetrics((output as z.output<typeof metricsShape>).families),
    },
  },
  cli: { examples: ['ductile system metrics', 'ductile system metrics --json'] },
  mcp: { absent: 'it is for monitoring systems; use status and analytics instead' },
  async run({ engine }) {
    const families = [
      ...readProcessMetrics(engine),
      ...(await readLedgerMetrics(engine)),
      ...engine.metrics.read(),
    ];
    return {
      families: families.map(({ samples, ...family }) => ({
        ...family,
        samples: samples.map((sample) => ({ ...sample, labels: { ...sample.labels } })),
      })),
    };
  },
});

function readProcessMetrics(engine: Engine): MetricFamily[] {
  const { running, slots, uptimeMs, counts, state } = engine.status();
  const { user, system } = process.cpuUsage();
  const directives = Object.entries({
    requested: counts.directivesRequested,
    completed: counts.directivesCompleted,
    failed: counts.directivesFailed,
    cancelled: counts.directivesCancelled,
  });
  return [
    gauge(
      'ductile_up',
      '1 if this process works, 0 if it is degraded.',
      state === 'degraded' ? 0 : 1,
    ),
    gauge(
      'ductile_paused',
      '1 if the service is paused and starts no jobs, 0 otherwise.',
      state === 'paused' ? 1 : 0,
    ),
    gauge('ductile_workers', 'Jobs that this process can run at a time.', slots),
    gauge(
      'ductile_workers_busy',
      'Jobs of the root ledger that this process runs now.',
      running.length,
    ),
    gauge(
      'ductile_tenants_awake',
      'Ledgers of tenants that are open in this process.',
      engine.tenants?.open.length ?? 0,
    ),
    counter('ductile_signals_total', 'Signals that this process recorded in the root ledger.', [
      { labels: {}, value: counts.signalsEmitted },
    ]),
    counter(
      'ductile_directives_total',
      'Directives of the root ledger that this process recorded, by moment.',
      directives.map(([moment, value]) => ({ labels: { moment }, value })),
    ),
    gauge(
      'process_resident_memory_bytes',
      'Resident memory of this process.',
      process.memoryUsage.rss(),
    ),
    counter('process_cpu_seconds_total', 'CPU time of this process.', [
      { labels: {}, value: (user + system) / 1e6 },
    ]),
    gauge('process_uptime_seconds', 'Time since this process started.', uptimeMs / 1000),
  ];
}

async function readLedgerMetrics({ ledger }: Engine): Promise<MetricFamily[]> {
  const { watched } = figuresOf(ledger);
  await watched.prime();
  const known = watched.peek();
  if (known === undefined) {
    throw new DuctileError('LEDGER_UNAVAILABLE', 'the figures of the queue are not available');
  }
  const { queue, openBreakers: breakers, incidents, now } = known.value;
  const { ready, delayed, running, oldestReadyAt } = queue;
  const oldestMs = oldestReadyAt === null ? 0 : fromTimestamp(now) - fromTimestamp(oldestReadyAt);
  return [
    {
      name: 'ductile_queue_jobs',
      type: 'gauge',
      help: 'Jobs of the root ledger that have not ended.',
      samples: Object.entries({ ready, delayed, running }).map(([state, value]) => ({
        labels: { state },
        value,
      })),
    },
    gauge(
      'ductile_queue_oldest_ready_seconds',
      'Time since the oldest ready job became ready; 0 if no job is ready.',
      Math.max(0, oldestMs) / 1000,
    ),
    gauge(
      'ductile_figures_age_seconds',
      'Age of the figures of the queue, the breakers and the incidents.',
      Math.max(0, Date.now() - fromTimestamp(known.at)) / 1000,
    ),
    gauge('ductile_breakers_open', 'Circuit breakers that are not closed.', breakers),
    {
      name: 'ductile_incidents_open',
      type: 'gauge',
      help: 'Incidents of the root ledger that are open.',
      samples: incidentKinds.map((kind) => ({
        labels: { kind },
        value: incidents.filter((incident) => incident.kind === kind).length,
      })),
    },
  ];
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return { name, type: 'gauge', help, samples: [{ labels: {}, value }] };
}

function counter(name: string, help: string, samples: MetricFamily['samples']): MetricFamily {
  return { name, type: 'counter', help, samples };
}
